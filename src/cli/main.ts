#!/usr/bin/env node
/** The program `tenantry`. Compiled code is kept from run to run, which only helps what is imported after saying so. */
import { enableCompileCache } from 'node:module'

enableCompileCache()
const [{ run }, { stopSignal }] = await Promise.all([import('./run.ts'), import('./process/stop-signal.ts')])
const signal = stopSignal()
const code = await run(process.argv.slice(2), process, signal)
// A script of `tenant:repl` may have set another.
if (code !== 0) process.exitCode = code
// What did not end in the time it was given must not keep the process alive.
if (signal.aborted) process.exit()
