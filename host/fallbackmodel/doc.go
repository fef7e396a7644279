// Package fallbackmodel combines several models into one: when a model fails, it asks
// the next.
//
// Its input is a list of models, the preferred one first. The result is a [host.Model],
// for use wherever one is needed. If a model fails before a part of its answer was
// shown, the next one answers that request, with an event; the failed model is then
// asked last for a while.
package fallbackmodel
