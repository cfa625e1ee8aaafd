package capturetest

import "github.com/gormoutbox/outbox/gormoutbox"

// company is what a person belongs to.
type company struct {
	_    gormoutbox.Emit `outbox:"aggregate=company"`
	ID   uint
	Name string `gorm:"size:50"`
}

// person has one of each association.
type person struct {
	_         gormoutbox.Emit `outbox:"aggregate=person"`
	ID        uint
	Name      string `gorm:"size:50"`
	CompanyID *uint
	Company   *company
	Badge     *badge
	Pets      []pet
	Toys      []toy  `gorm:"polymorphic:Owner"`
	Langs     []lang `gorm:"many2many:person_langs"`
	Clubs     []club `gorm:"many2many:enrolments"`
}

// badge is a has-one.
type badge struct {
	_        gormoutbox.Emit `outbox:"aggregate=badge"`
	ID       uint
	Text     string `gorm:"size:20"`
	PersonID *uint
}

// pet is a has-many.
type pet struct {
	_        gormoutbox.Emit `outbox:"aggregate=pet"`
	ID       uint
	Name     string `gorm:"size:50"`
	PersonID *uint
}

// toy belongs to anything.
type toy struct {
	_         gormoutbox.Emit `outbox:"aggregate=toy"`
	ID        identifier      `gorm:"type:char(32);primaryKey"`
	Name      string          `gorm:"size:50"`
	OwnerID   uint
	OwnerType string `gorm:"size:20"`
}

// lang is not annotated, nor is its join table.
type lang struct {
	Code string `gorm:"primaryKey;size:10"`
}

// club is many-to-many, through an annotated join model.
type club struct {
	_    gormoutbox.Emit `outbox:"aggregate=club"`
	ID   int             `gorm:"autoIncrement:false"`
	Name string          `gorm:"size:50"`
}

// enrolment is the join model of persons and clubs.
type enrolment struct {
	_        gormoutbox.Emit `outbox:"aggregate=enrolment"`
	PersonID uint            `gorm:"primaryKey;autoIncrement:false"`
	ClubID   int             `gorm:"primaryKey;autoIncrement:false"`
	Level    int             `gorm:"default:1"`
}
