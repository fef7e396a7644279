// Package doctorcmd checks the toolchain, directories, servers and the terminal that
// agenthost needs: the command agenthost doctor.
package doctorcmd
