/** Starts servers of ../bench/servers as processes; each prints its URL when it listens. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

const TICKS_PER_SECOND = 100

export interface Served {
  readonly url: string
  /** CPU time of the process. */
  cpuMs(): number
  close(): Promise<void>
}

export async function serve(name: string, environment: Readonly<Record<string, string>>): Promise<Served> {
  const child = spawn(
    process.execPath,
    ['--conditions=tenantry-source', join(import.meta.dirname, `servers/${name}.ts`)],
    {
      env: { ...process.env, ...environment, NODE_ENV: 'production' },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const ended = once(child, 'exit').then(() => {
    throw new Error(`the server ${name} exited before it listened`)
  })
  ended.catch(() => undefined)
  const [line] = (await Promise.race([once(child.stdout, 'data'), ended])) as [Buffer]
  return {
    url: String(line).trim(),
    cpuMs: () => cpuMsOf(child.pid ?? 0),
    async close() {
      child.kill('SIGTERM')
      await once(child, 'exit')
    },
  }
}

/** User and system CPU time of a process. */
export function cpuMsOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000
}
