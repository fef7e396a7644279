// Package fallbackmodel makes one model of several: it asks the next one when one
// fails.
//
// A list of models goes in, the preferred one first. A [host.Model] comes out that
// stands where any model does. A model that fails before a part of its answer was
// shown is replaced by the next for that request, with an event; it is then asked
// last for a while.
package fallbackmodel
