#!/usr/bin/env node
/** Runs the program `tenantry`. */
import { enableCompileCache } from 'node:module'

// The cache serves only modules that are imported after this call.
enableCompileCache()
const [{ run }, { stopSignal }] = await Promise.all([import('./run.ts'), import('./process/stop-signal.ts')])
const signal = stopSignal()
const code = await run(process.argv.slice(2), process, signal)
// A script of `tenant:repl` may have set another exit code.
if (code !== 0) process.exitCode = code
// Ends work that exceeds its grace time after the signal.
if (signal.aborted) process.exit()
