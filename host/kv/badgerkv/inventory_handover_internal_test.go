//go:build linux || darwin

package badgerkv

import "testing"

// A process that closes a store releases the lock before it writes its last inventory.
// By then the next process may have written its own.
func TestTheLastInventoryIsLeftToTheNextOwner(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if err := writeClosedInventory(dir); err != nil {
		t.Fatal(err)
	}
	if inv, err := readInventory(dir); err != nil || inv == nil || inv.Clean {
		t.Errorf("the inventory of the open store is %+v, %v, want that of its owner", inv, err)
	}
}
