/**
 * Kills processes that carry out transfers.
 *
 * A transfer writes each phase to its row before it starts the phase. A trigger on that row waits for a lock of the
 * test. When it waits, the test kills the process with SIGKILL and terminates its session, so the write does not
 * happen.
 */
import { expect } from 'vitest'
import type { Child } from '../../../test/support/child.ts'
import { createLogger } from '../../kernel/base/logger.ts'
import { Database } from '../../kernel/database/database.ts'
import { WAITING_LOCKS } from '../../testing/base/database.ts'
import { eventually } from '../../testing/base/tenancy.ts'

const LOCK = 4_004

export interface Killer {
  /** A separate connection: changes of the test to the row must not wait for the lock of the test. */
  readonly database: Database
  /** Starts a process that carries out the transfer, and kills it when it writes this phase. */
  killedAt(phase: string, transferId: string): Promise<void>
  /** Ends the lease of the killed process. */
  expire(transferId: string): Promise<void>
  close(): Promise<void>
}

/** @param start of a process that understands `{ work: transferId }` */
export async function openKiller(url: string, start: () => Promise<Child>): Promise<Killer> {
  const database = new Database({ url }, createLogger({ level: 'silent' }))
  await database.sql(`
    create table pause_at (phase text);
    create function pause() returns trigger language plpgsql as $$ begin
      if new.phase is distinct from old.phase and new.phase in (select phase from pause_at) then
        perform pg_advisory_xact_lock(${LOCK});
      end if;
      return new;
    end $$;
    create trigger pause before update on multitenancy.transfers for each row execute function pause()`)
  return {
    database,
    killedAt: (phase, transferId) => killedAt(database, start, phase, transferId),
    expire: async (transferId) => {
      await database.sql(`update multitenancy.transfers set lease_until = now() - interval '1 hour' where id = $1`, [
        transferId,
      ])
    },
    close: () => database.close(),
  }
}

async function killedAt(
  database: Database,
  start: () => Promise<Child>,
  phase: string,
  transferId: string,
): Promise<void> {
  const child = await start()
  const holder = new AbortController()
  const held = Promise.withResolvers<void>()
  const holding = database.session(async (client) => {
    await client.query('insert into pause_at values ($1)', [phase])
    await client.query('select pg_advisory_lock($1)', [LOCK])
    held.resolve()
    await new Promise((resolve) => holder.signal.addEventListener('abort', resolve))
    await client.query('delete from pause_at')
  })
  await held.promise
  try {
    const ended = child.request({ work: transferId }).then((result) => {
      throw new Error(`the transfer ended before phase ${phase}: ${JSON.stringify(result)}`)
    })
    ended.catch(() => undefined) // kill the process
    const waits = eventually(async () => {
      const waiting = await database.sql(
        `select pid from ${WAITING_LOCKS} where locktype = 'advisory' and objid = ${LOCK}`,
      )
      expect(waiting.rows).toHaveLength(1)
      return waiting
    }, 30_000)
    const { rows } = await Promise.race([waits, ended])
    await child.kill('SIGKILL')
    const [{ pid }] = rows
    // Otherwise, a renewal that waits for this session would follow: the server does not know that the process has ended.
    await database.sql('select pg_terminate_backend(pid) from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [
      pid,
    ])
    await database.sql('select pg_terminate_backend($1)', [pid])
  } finally {
    holder.abort()
    await holding
  }
}
