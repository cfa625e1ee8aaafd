package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// perSecond is the measure of a rate.
const perSecond = "/s"

// sample is what one run of a variant measured, by the name of the measure.
type sample map[string]float64

// rate is a sample of things in some time.
func rate(n int, took time.Duration) sample {
	return sample{perSecond: float64(n) / took.Seconds()}
}

// variant is one way to do the work. It prepares what it needs by itself and counts only what it is about.
type variant struct {
	name string
	run  func(ctx context.Context) (sample, error)
}

// measured has the samples of each variant, one a round.
type measured map[string][]sample

// turns lets the variants take their turns, so that a machine that is slower for a while is so for all of them.
func (b *bench) turns(ctx context.Context, variants ...variant) (measured, error) {
	m := measured{}
	for round := range b.rounds {
		for _, v := range variants {
			s, err := v.run(ctx)
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", v.name, err)
			}
			b.log.InfoContext(ctx, "measured", slog.String("figure", b.figure), slog.String("variant", v.name), slog.Int("round", round+1), slog.Any("sample", s))
			m[v.name] = append(m[v.name], s)
		}
	}
	return m, nil
}

// of are the values of a measure, one a round.
func (m measured) of(variant, measure string) []float64 {
	values := make([]float64, len(m[variant]))
	for i, s := range m[variant] {
		values[i] = s[measure]
	}
	return values
}

// ratios compares two variants round by round.
func (m measured) ratios(variant, base, measure string) []float64 {
	values, bases := m.of(variant, measure), m.of(base, measure)
	for i := range values {
		values[i] /= bases[i]
	}
	return values
}

// median of values that are not empty.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}
