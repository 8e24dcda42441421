/** Selects the PostgreSQL server of the service: the configured one, or the embedded one of the data directory. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../kernel/base/logger.ts'
import { ConfigurationError, type ServiceConfig } from './config.ts'
import {
  type Acquired,
  acquire,
  embeddedCluster,
  hasCluster,
  keptSecret,
  openDataDirectory,
  type Running,
} from './data-directory.ts'

const LOCK_WAIT_MS = 30_000
const LOCK_POLL_MS = 50

/** Another live process has the data directory. */
export class AlreadyRunning extends Error {
  readonly running: Running | null
  constructor(directory: string, running: Running | null) {
    const who = running ? ` (process ${running.pid}${running.url ? ` at ${running.url}` : ''})` : ''
    super(`Another Tenantry runs on ${directory}${who}. Stop it, or set TENANTRY_DATA_DIR to another directory.`)
    this.running = running
  }
}

export interface BackofficeServer {
  readonly url: string
  /** Publishes the URL of this process to other processes on the data directory. */
  announce(url: string): void
  /** Rejects if the embedded PostgreSQL has ended and cannot be started again. Never resolves. */
  readonly failed: Promise<never>
  stop(): Promise<void>
}

interface Options {
  /** Whether the data directory must be unused; otherwise the PostgreSQL of a running service is shared. */
  readonly exclusive: boolean
  /** Aborts the wait for a data directory that another command uses. */
  readonly signal: AbortSignal | undefined
  readonly log: Logger
}

export const openBackofficeServer = async (config: ServiceConfig, options: Options): Promise<BackofficeServer> =>
  config.databaseUrl === undefined ? embedded(config, options) : given(config.databaseUrl)

const given = (url: string): BackofficeServer => ({
  url,
  announce: () => undefined,
  failed: Promise.withResolvers<never>().promise,
  stop: async () => undefined,
})

async function embedded(config: ServiceConfig, { exclusive, signal, log }: Options): Promise<BackofficeServer> {
  if (!exclusive && config.hasProgram) assertServed(config.dataDirectory)
  const directory = openDataDirectory(config.dataDirectory)
  const deadline = performance.now() + LOCK_WAIT_MS
  let isWaiting = false
  for (;;) {
    const lock = acquire(directory)
    if (lock.held) return startOwn(directory, lock, log)
    const { running } = lock
    if (performance.now() > deadline) throw new AlreadyRunning(directory, running)
    if (running?.url) {
      if (exclusive || !running.databaseUrl) throw new AlreadyRunning(directory, running)
      return given(running.databaseUrl)
    }
    signal?.throwIfAborted()
    if (!isWaiting)
      log.info(`waiting for ${running ? `process ${running.pid}` : 'another process'}, which uses ${directory}`)
    isWaiting = true
    await sleep(LOCK_POLL_MS) // The holder is a command, or a service that is starting.
  }
}

/** A command beside a program would create a database that the program does not use, and report on that. */
function assertServed(directory: string): void {
  if (hasCluster(directory)) return
  throw new ConfigurationError([
    'database.url or DATABASE_URL: required, the same as in your program. For the ready-made service in place of it, run "tenantry serve" first.',
  ])
}

async function startOwn(
  directory: string,
  lock: Extract<Acquired, { held: true }>,
  log: Logger,
): Promise<BackofficeServer> {
  try {
    const [{ startEmbeddedPostgres }, { PostgresSupervisor }] = await Promise.all([
      import('./embedded-postgres.ts'),
      import('./postgres-supervisor.ts'),
    ])
    const options = { directory: embeddedCluster(directory), password: passwordOf(directory) }
    const server = await startEmbeddedPostgres(options)
    const supervisor = new PostgresSupervisor(server, options, log)
    lock.announce({ url: null, databaseUrl: server.url })
    return {
      url: server.url,
      announce: (url) => lock.announce({ url, databaseUrl: server.url }),
      failed: supervisor.failed,
      stop: async () => {
        await supervisor.stop()
        lock.release()
      },
    }
  } catch (error) {
    lock.release()
    throw error
  }
}

/** @throws ConfigurationError instead of generating a password for an existing cluster */
function passwordOf(directory: string): string {
  const file = join(directory, 'postgres-password')
  if (hasCluster(directory) && !existsSync(file)) {
    throw new ConfigurationError([
      `${file}: does not exist, but ${embeddedCluster(directory)} does. Restore this file: it has the password of this PostgreSQL. ` +
        'If it is lost, docs/disaster-recovery.md describes how to set another one.',
    ])
  }
  return keptSecret(directory, 'postgres-password')
}
