package plugin

// HandWritten is the assembler of this package's tests, for those outside it.
var HandWritten = handWritten
