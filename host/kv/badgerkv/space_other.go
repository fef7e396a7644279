//go:build !linux && !darwin

package badgerkv

// freeBytes is not known on this system.
func freeBytes(string) (uint64, bool) { return 0, false }

// dirsHaveLocks reports whether lockDir can succeed on this system.
const dirsHaveLocks = false

// lockDir has no lock on this system; callers then skip the work that needs it.
func lockDir(string) (unlock func(), ok bool) { return nil, false }
