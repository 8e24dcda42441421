/** Starts a `redis-server` without persistence that a test can kill and restart. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from './free-port.ts'

export { freePort }

const START_MS = 10_000
const POLL_INTERVAL_MS = 20

export interface RedisServer {
  readonly url: string
  readonly port: number
  readonly pid: number
  readonly directory: string
  /** As `kill -9`. */
  kill(): Promise<void>
  /** Restarts it on the same port after `kill`, without its data. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** @param settings command line arguments, such as `['--cluster-enabled', 'yes']` */
export async function startRedisServer(
  settings: readonly string[] = [],
  program = 'redis-server',
): Promise<RedisServer> {
  const directory = await mkdtemp(join(tmpdir(), 'tenantry-redis-'))
  const port = await freePort()
  let child: ChildProcess
  const start = async () => {
    const common = [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      directory,
    ]
    child = spawn(program, [...common, ...settings], { stdio: 'ignore' })
    await once(child, 'spawn')
    await waitUntilResponding(port, child)
  }
  const end = async (signal: 'SIGKILL' | 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const gone = once(child, 'exit')
    child.kill(signal)
    await gone
  }
  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get pid() {
      return child.pid as number
    },
    directory,
    kill: () => end('SIGKILL'),
    start,
    async stop() {
      await end('SIGKILL')
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function waitUntilResponding(port: number, child: ChildProcess): Promise<void> {
  const deadline = performance.now() + START_MS
  while (!(await isResponding(port))) {
    if (child.exitCode !== null || performance.now() > deadline) throw new Error('redis-server did not start')
    await pause(POLL_INTERVAL_MS)
  }
}

async function isResponding(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    socket.write('PING\r\n')
    const [reply] = await once(socket, 'data')
    return /^(\+PONG|-NOAUTH)/.test(String(reply))
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
