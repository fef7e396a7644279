// Package usagecmd has the command agenthost usage: bills, records and limits of tenants.
package usagecmd
