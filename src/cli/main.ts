#!/usr/bin/env node
/**
 * Runs the program `tenantry`: the copy of the package that the file of the installation resolves. Imports follow the check of the Node.js version, because older versions cannot load them.
 */
import { pathToFileURL } from 'node:url'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
if (major < 22 || (major === 22 && minor < 19)) {
  process.stderr.write(`tenantry needs Node 22.19 or later, this is ${process.versions.node}\n`)
  process.exit(2)
}
const { enableCompileCache } = await import('node:module')
// The cache serves only modules that are imported after this call. A built service runs without it: Node keeps the cache in memory
// (9 MiB), and writing it takes longer than all it saves at later starts.
const isBuiltService = process.argv.includes('serve') && import.meta.filename.endsWith('.js')
if (!isBuiltService) enableCompileCache()
const { otherProgram } = await import('./app-option.ts')
const other = otherProgram(process.argv.slice(2), process.env)
if (other) await import(pathToFileURL(other).href)
else await runHere()

async function runHere(): Promise<void> {
  const [{ run }, { stopSignal }] = await Promise.all([import('./run.ts'), import('./process/stop-signal.ts')])
  const signal = stopSignal()
  const code = await run(process.argv.slice(2), process, signal)
  // A script of `tenant:repl` may have set another exit code.
  if (code !== 0) process.exitCode = code
  // Ends work that exceeds its grace time after the signal.
  if (signal.aborted) process.exit()
}
