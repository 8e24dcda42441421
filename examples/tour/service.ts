/**
 * Starts the real service in a temporary directory: `tenantry serve` with its configuration, data directory and
 * PostgreSQL server; and runs commands of the same program.
 *
 * Read access to the data directory gives full control of the installation: it has the admin token, the application key
 * and, while the service runs, the addresses of the service and its PostgreSQL server. The tour reads them there.
 */
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from 'tenantry'
import { type Program, type ProgramExit, run } from './program.ts'

const FIRST_MIGRATION = join(import.meta.dirname, '../migrations/0001_notes.sql')
const START_TIMEOUT_MS = 60_000
const ORPHAN_TIMEOUT_MS = 10_000
const POLL_INTERVAL_MS = 20

const CONFIGURATION = {
  migrations: 'migrations',
  plans: {
    defaultPlan: 'free',
    definitions: { free: { limits: { seats: 5 } }, pro: { limits: { seats: 50 } }, enterprise: { limits: {} } },
  },
}

export interface Service {
  readonly url: string
  readonly databaseUrl: string
  readonly adminToken: string
  readonly appKey: string
  /** Settings that a program beside the service must have. */
  readonly settings: Config
  /** Folder of the host's migrations. */
  readonly migrations: string
  /** Runs `tenantry <words> --json` and returns the parsed output. */
  command(...words: string[]): Promise<unknown>
  /** Stops the service and returns its exit code: 0 is success. */
  stop(): Promise<ProgramExit>
}

export async function startService(directory: string, signal: AbortSignal): Promise<Service> {
  const migrations = join(directory, 'migrations')
  const data = join(directory, 'data')
  const config = join(directory, 'tenantry.config.json')
  await mkdir(migrations)
  await copyFile(FIRST_MIGRATION, join(migrations, '0001_notes.sql'))
  await writeFile(config, JSON.stringify(CONFIGURATION, undefined, 2))

  const tenantry = (...words: string[]) =>
    run([...words, '--config', config], { PORT: '0', TENANTRY_DATA_DIR: data, LOG_LEVEL: 'warn' })
  const service = tenantry('serve')
  const stop = async () => {
    const how = await service.end()
    if (how !== 0) await endOrphan(join(data, 'postgres/postmaster.pid'))
    return how
  }
  try {
    const { url, databaseUrl } = await announcement(join(data, 'running.json'), service, signal)
    const kept = async (name: string) => (await readFile(join(data, name), 'utf8')).trim()
    return {
      url,
      databaseUrl,
      adminToken: await kept('admin-token'),
      appKey: await kept('app-key'),
      settings: { ...CONFIGURATION, migrations, satellites: {}, backups: { directory: join(data, 'backups') } },
      migrations,
      command: (...words) => resultOf(tenantry(...words, '--json'), `tenantry ${words.join(' ')}`, signal),
      stop,
    }
  } catch (error) {
    await stop()
    signal.throwIfAborted()
    throw new Error(`The service did not start: ${(await service.complaints).trim() || error}`)
  }
}

/** The service writes this file when it is ready. */
async function announcement(path: string, service: Program, signal: AbortSignal) {
  const deadline = Date.now() + START_TIMEOUT_MS
  while (service.isRunning() && Date.now() < deadline) {
    const running = JSON.parse(await readFile(path, 'utf8').catch(() => '{}'))
    if (running.url && running.databaseUrl) return running as { url: string; databaseUrl: string }
    await sleep(POLL_INTERVAL_MS, undefined, { signal })
  }
  throw new Error(service.isRunning() ? `timeout after ${START_TIMEOUT_MS} ms` : `exited with ${await service.ended}`)
}

async function resultOf(program: Program, call: string, signal: AbortSignal): Promise<unknown> {
  const stop = () => void program.end()
  signal.addEventListener('abort', stop, { once: true })
  const how = await program.ended
  signal.removeEventListener('abort', stop)
  signal.throwIfAborted()
  if (how !== 0) throw new Error(`${call} exited with ${how}: ${(await program.complaints).trim()}`)
  return JSON.parse(await program.output)
}

/**
 * A killed service cannot stop its PostgreSQL server. SIGINT is PostgreSQL's fast shutdown; sending it twice is safe.
 */
async function endOrphan(pidFile: string): Promise<void> {
  const pid = Number.parseInt(await readFile(pidFile, 'utf8').catch(() => ''), 10)
  const deadline = Date.now() + ORPHAN_TIMEOUT_MS
  while (pid > 0 && Date.now() < deadline) {
    try {
      process.kill(pid, 'SIGINT')
    } catch {
      return // the process has ended
    }
    await sleep(POLL_INTERVAL_MS)
  }
}
