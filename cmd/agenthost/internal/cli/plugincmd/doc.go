// Package plugincmd builds plugins, looks into them, and steers those of a running host:
// the command agenthost plugin, and the operations that a running host does for it.
package plugincmd
