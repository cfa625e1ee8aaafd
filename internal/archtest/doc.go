// Package archtest holds the tests of the module's structure.
package archtest
