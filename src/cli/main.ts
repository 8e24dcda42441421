#!/usr/bin/env node
/** The program `tenantry`. The compile cache serves only modules that are imported after it is enabled. */
import { enableCompileCache } from 'node:module'

enableCompileCache()
const [{ run }, { stopSignal }] = await Promise.all([import('./run.ts'), import('./process/stop-signal.ts')])
const signal = stopSignal()
const code = await run(process.argv.slice(2), process, signal)
// A script of `tenant:repl` may have set another exit code.
if (code !== 0) process.exitCode = code
// Work that exceeds its time after the signal must not keep the process alive.
if (signal.aborted) process.exit()
