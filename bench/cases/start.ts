/** Benchmark of the built service: time from its start to the first 200 of /readyz, and its memory a minute later. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Bench, median, RUNS } from '../measure.ts'

const ROOT = join(import.meta.dirname, '../..')
const PROGRAM = join(ROOT, 'dist/cli/main.js')
const IDLE_MS = 60_000
const QUICK_IDLE_MS = 5_000

export const start = {
  name: 'start and idle memory',
  run: async ({ quick }: Bench) => {
    execFileSync(process.execPath, [join(ROOT, 'build.ts')])
    const directory = mkdtempSync(join(tmpdir(), 'tenantry-start-'))
    try {
      const first = await started(directory)
      await stopped(first.child)
      const warm: number[] = []
      let idleMemory = Number.NaN
      const runs = quick ? 1 : RUNS
      for (let run = 1; run <= runs; run++) {
        const { child, ms } = await started(directory)
        warm.push(ms)
        if (run === runs) {
          await sleep(quick ? QUICK_IDLE_MS : IDLE_MS)
          idleMemory = residentMiB(child.pid)
        }
        await stopped(child)
      }
      return [
        { name: 'first start to a 200 of /readyz', value: `${Math.round(first.ms)} ms`, goal: 'aim 10 s' },
        { name: 'later starts to a 200 of /readyz', value: `${Math.round(median(warm))} ms`, goal: 'aim 1.5 s' },
        { name: 'idle memory of the Node process', value: `${Math.round(idleMemory)} MiB`, goal: 'under 130 MiB' },
      ]
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  },
}

async function started(directory: string): Promise<{ child: ChildProcess; ms: number }> {
  const port = await freePort()
  const startedAtMs = performance.now()
  const child = spawn(process.execPath, [PROGRAM, 'serve'], {
    env: { ...process.env, TENANTRY_DATA_DIR: directory, PORT: String(port), LOG_LEVEL: 'warn' },
    stdio: 'ignore',
  })
  const ended = once(child, 'exit').then(() => {
    throw new Error('the service exited before it was ready')
  })
  const ready = async () => {
    for (;;) {
      const response = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined)
      if (response?.status === 200) return
      await sleep(10)
    }
  }
  ended.catch(() => undefined)
  await Promise.race([ready(), ended])
  return { child, ms: performance.now() - startedAtMs }
}

async function stopped(child: ChildProcess): Promise<void> {
  child.kill('SIGTERM')
  await once(child, 'exit')
}

function residentMiB(pid: number | undefined): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) / 1024
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
