#!/usr/bin/env node
/** The program `tenantry`. Compiled code is kept from run to run, which only helps what is imported after saying so. */
import { enableCompileCache } from 'node:module'

enableCompileCache()
const { run } = await import('./run.ts')
await run(process.argv.slice(2))
