/**
 * Sums of the store in Redis: a hash for each tenant and day, with its incarnation under `@`, and with the last added
 * batch of a source under `#<source>`. The hash is lost or kept as a whole, so that no batch is added twice to existing
 * sums.
 *
 * A batch is one script for each tenant, all in flight concurrently. A batch may be added in part; sent again, each
 * hash takes it once.
 */
import { randomUUID } from 'node:crypto'
import {
  checkBatch,
  checkDay,
  checkReading,
  MAX_SUM,
  SUM_TTL_SECONDS,
  type Sum,
  type SumBatch,
  type SumOfDay,
  type Sums,
} from '../../kernel/store/sums.ts'
import type { RedisConnection } from './redis-connection.ts'
import type { RedisKeys } from './redis-keys.ts'
import { ADD } from './redis-scripts.ts'

const ADDITIONS_AT_ONCE = 1_500
const TENANTS_PER_SCAN = 500
const INCARNATION = '@'
const NAME = /^[A-Za-z0-9]/

export class RedisSums implements Sums {
  readonly outliveProcess = true
  readonly additionsAtOnce = ADDITIONS_AT_ONCE
  readonly #connection: RedisConnection
  readonly #keys: RedisKeys

  constructor(connection: RedisConnection, keys: RedisKeys) {
    this.#connection = connection
    this.#keys = keys
  }

  async add(batch: SumBatch): Promise<void> {
    checkBatch(batch)
    const { day, source, number, additions } = batch
    if (additions.length === 0) return
    const tenants = Map.groupBy(additions, ({ tenantId }) => tenantId)
    const common = [SUM_TTL_SECONDS, randomUUID(), source, number, MAX_SUM]
    const adding = [...tenants].map(([tenantId, own]) =>
      this.#connection.script(
        ADD,
        [this.#keys.summing(tenantId, day)],
        [...common, ...own.flatMap(({ name, amount }) => [name, amount])],
      ),
    )
    await Promise.all([this.#note(day, [...tenants.keys()]), ...adding])
  }

  async read(tenantId: string, days: readonly string[]): Promise<readonly SumOfDay[]> {
    checkReading(tenantId, days)
    const found = await Promise.all(days.map((day) => this.#of(tenantId, day)))
    return found.flatMap((sums, index) => sums.map((sum) => ({ ...sum, day: days[index] as string })))
  }

  async *pages(day: string): AsyncGenerator<readonly Sum[]> {
    checkDay(day)
    const names = this.#keys.summing(null, day)
    let cursor = '0'
    do {
      const from = cursor
      const [next, tenants] = await this.#connection.run((client) =>
        client.sscan(names, from, 'COUNT', TENANTS_PER_SCAN),
      )
      const sums = (await Promise.all([...new Set(tenants)].map((tenantId) => this.#of(tenantId, day)))).flat()
      if (sums.length > 0) yield sums
      cursor = next
    } while (cursor !== '0')
  }

  async #note(day: string, tenantIds: readonly string[]): Promise<void> {
    const names = this.#keys.summing(null, day)
    await this.#connection.run(async (client) => {
      await Promise.all([client.sadd(names, ...tenantIds), client.expire(names, SUM_TTL_SECONDS)])
    })
  }

  async #of(tenantId: string, day: string): Promise<Sum[]> {
    const kept = await this.#connection.run((client) => client.hgetall(this.#keys.summing(tenantId, day)))
    const incarnation = kept[INCARNATION] ?? ''
    return Object.entries(kept)
      .filter(([name]) => NAME.test(name))
      .map(([name, sum]) => ({ tenantId, name, incarnation, sum: Number(sum) }))
  }
}
