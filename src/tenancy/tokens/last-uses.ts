/** Writes the time of the last use of tokens or sessions: at most once a minute each over all processes, and without a wait of requests. */
import { LRUCache } from 'lru-cache'
import { asSystem } from '../../kernel/base/context.ts'
import { SCHEMA } from '../../kernel/database/database.ts'
import type { Kernel } from '../../kernel/kernel.ts'

const EVERY_MS = 60_000
const MAX_REMEMBERED = 10_000
const TIMEOUT_MS = 5_000

export class LastUses {
  readonly #kernel: Pick<Kernel, 'database' | 'clock' | 'log'>
  readonly #table: 'api_tokens' | 'api_sessions'
  readonly #writtenAt = new LRUCache<string, number>({ maxSize: MAX_REMEMBERED, sizeCalculation: () => 1 })
  readonly #writes = new Set<Promise<void>>()

  constructor(kernel: Pick<Kernel, 'database' | 'clock' | 'log'>, table: 'api_tokens' | 'api_sessions') {
    this.#kernel = kernel
    this.#table = table
  }

  /** The last use that this process knows, in ms; 0 if none. Up to a minute old. */
  last(id: string): number {
    return this.#writtenAt.get(id) ?? 0
  }

  /** @param last stored time */
  note(id: string, last: Date | null): void {
    const now = this.#kernel.clock.now()
    const known = Math.max(last?.getTime() ?? 0, this.last(id))
    if (now.getTime() - known < EVERY_MS) return
    this.#writtenAt.set(id, now.getTime())
    const write: Promise<void> = asSystem(() => this.#write(id, now)).finally(() => this.#writes.delete(write))
    this.#writes.add(write)
  }

  /** Resolves when no write is in progress. */
  async idle(): Promise<void> {
    await Promise.all(this.#writes)
  }

  async #write(id: string, now: Date): Promise<void> {
    const { database, log } = this.#kernel
    const text = `update ${SCHEMA}.${this.#table} set last_used_at = $2
      where id = $1 and (last_used_at is null or last_used_at <= $2::timestamptz - interval '1 minute') returning id`
    try {
      const { rows } = await database.sql({ text, timeoutMs: TIMEOUT_MS }, [id, now])
      if (rows.length === 0) await this.#readStored(id)
    } catch (error) {
      log.debug({ err: error }, 'the time of a last use was not written')
    }
  }

  /** Another process wrote within the last minute: the next write is a minute after that one. */
  async #readStored(id: string): Promise<void> {
    const text = `select last_used_at as "lastUsedAt" from ${SCHEMA}.${this.#table} where id = $1`
    const { rows } = await this.#kernel.database.sql({ text, timeoutMs: TIMEOUT_MS }, [id])
    const stored: Date | null = rows[0]?.lastUsedAt ?? null
    if (stored) this.#writtenAt.set(id, stored.getTime())
    else this.#writtenAt.delete(id)
  }
}
