package configfile

import (
	"io/fs"
	"os"
)

// OSFiles is the operating system's file system under the names that people
// type: relative to the working directory, or absolute.
type OSFiles struct{}

func (OSFiles) Open(name string) (fs.File, error)          { return os.Open(name) }
func (OSFiles) Stat(name string) (fs.FileInfo, error)      { return os.Stat(name) }
func (OSFiles) ReadFile(name string) ([]byte, error)       { return os.ReadFile(name) }
func (OSFiles) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }
