package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

// cpuMeasure is the measure of what an event costs one of the processes.
func cpuMeasure(process string) string { return "µs of CPU an event, " + process }

const (
	thisProcess   = "this process"
	itsPostgreSQL = "PostgreSQL"
	itsKafka      = "Kafka"
	together      = "together"
)

// processes are those that share the machine, by name, with their ids.
type processes map[string]int

// findProcesses finds the servers of this machine that listen at some addresses.
func findProcesses(addresses map[string]string) (processes, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	sockets := map[string]string{} // what a file descriptor of the server points to
	for name, address := range addresses {
		inode, err := listener(fs, address)
		if err != nil {
			return nil, fmt.Errorf("%s at %s: %w", name, address, err)
		}
		sockets["socket:["+strconv.FormatUint(inode, 10)+"]"] = name
	}
	found := processes{thisProcess: os.Getpid()}
	all, err := fs.AllProcs()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		targets, err := p.FileDescriptorTargets()
		if err != nil {
			continue // it has ended, or is not ours to look at
		}
		for _, target := range targets {
			// Children inherit the socket; the least id is that of the process which made it.
			if name, ok := sockets[target]; ok && (found[name] == 0 || p.PID < found[name]) {
				found[name] = p.PID
			}
		}
	}
	if len(found) < len(addresses)+1 {
		return nil, errors.New("a server's process is not to be seen")
	}
	return found, nil
}

// listener is the inode of the socket that listens at the port of an address.
func listener(fs procfs.FS, address string) (uint64, error) {
	const listening = 0x0A // TCP_LISTEN in the kernel's include/net/tcp_states.h
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0, err
	}
	four, err := fs.NetTCP() //nolint:staticcheck // netlink, which is to replace it, would be one more dependency for one socket
	if err != nil {
		return 0, err
	}
	six, err := fs.NetTCP6() //nolint:staticcheck // likewise
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for _, line := range append(four, six...) {
		if line.St == listening && line.LocalPort == port {
			return line.Inode, nil
		}
	}
	return 0, errors.New("nothing on this machine listens there")
}

// used is how long each of them and its children have been on a processor.
func (p processes) used() (map[string]time.Duration, error) {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil, err
	}
	all, err := fs.AllProcs()
	if err != nil {
		return nil, err
	}
	stats := map[int]procfs.ProcStat{}
	for _, proc := range all {
		if stat, err := proc.Stat(); err == nil { // else it has ended, and its parent has its time
			stats[proc.PID] = stat
		}
	}
	out := make(map[string]time.Duration, len(p))
	for name, root := range p {
		for pid := range stats {
			if descends(stats, pid, root) {
				s := stats[pid]
				const tick = time.Second / 100 // USER_HZ, the same for all platforms of Linux
				out[name] += time.Duration(int(s.UTime)+int(s.STime)+s.CUTime+s.CSTime) * tick
			}
		}
	}
	return out, nil
}

func descends(stats map[int]procfs.ProcStat, pid, root int) bool {
	for pid != root {
		s, ok := stats[pid]
		if !ok {
			return false
		}
		pid = s.PPID
	}
	return true
}

// costs measures what fn, which is about n events, costs each of the processes for an event, and adds that to its sample. It does not
// if the processes are not known.
func (p processes) costs(n int, fn func() (sample, error)) (sample, error) {
	if p == nil {
		return fn()
	}
	before, err := p.used()
	if err != nil {
		return nil, err
	}
	s, err := fn()
	if err != nil {
		return nil, err
	}
	after, err := p.used()
	if err != nil {
		return nil, err
	}
	sum := 0.0
	for name := range p {
		each := float64((after[name] - before[name]).Microseconds()) / float64(n)
		s[cpuMeasure(name)] = each
		sum += each
	}
	s[cpuMeasure(together)] = sum
	return s, nil
}

// profiled writes a CPU profile of what fn does to a file in the folder of -profiles, if there is one.
func (b *bench) profiled(name string, fn func() (sample, error)) (s sample, err error) {
	if b.profiles == "" {
		return fn()
	}
	b.profile++
	file, err := os.Create(filepath.Join(b.profiles, fmt.Sprintf("%s-%s-%d.pprof", b.figure, name, b.profile)))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	return fn()
}
