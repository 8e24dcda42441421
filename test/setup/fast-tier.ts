/** Rejects processes and threads in fast tests, including those of the code under test. */
import childProcess from 'node:child_process'
import { syncBuiltinESMExports } from 'node:module'
import workerThreads from 'node:worker_threads'
import { expect } from 'vitest'
import { tierOf } from './tiers.ts'

const file = expect.getState().testPath ?? ''

function reject(): never {
  throw new Error(`${file} starts a process or a thread, which only *.slow.test.ts may do`)
}

if (tierOf(file) === 'fast') {
  const { spawn, spawnSync, exec, execSync, execFile, execFileSync, fork } = childProcess
  for (const { name } of [spawn, spawnSync, exec, execSync, execFile, execFileSync, fork]) {
    Object.assign(childProcess, { [name]: reject })
  }
  Object.assign(workerThreads, { Worker: reject })
  syncBuiltinESMExports()
}
