/**
 * Counters of the store in Redis. Calls of the same tick are sent as one script, because the round trip is most of a
 * call's cost. In a cluster there is one script for each tenant, whose keys share one slot.
 *
 * The day is derived from the last known time of the server. If it is wrong, the script changes nothing and is sent
 * again.
 */

import { DependencyUnavailable } from '../../kernel/base/errors.ts'
import {
  COUNTER_TTL_SECONDS,
  type Counted,
  type Counters,
  checkCounted,
  checkCounterName,
  checkCounterOwner,
  checkGauge,
  checkTakes,
  countsByName,
  dateOf,
  dayOf,
  type Reading,
  type Readings,
  type Take,
  type Taken,
  tooFar,
  withCleared,
} from '../../kernel/store/counters.ts'
import { type RedisConnection, rejectionOf } from './redis-connection.ts'
import type { RedisKeys } from './redis-keys.ts'
import { CLEAR, COUNTED, PUT, READ, READ_ALL, type Script, TAKE, type Timed } from './redis-scripts.ts'

/** Few enough not to delay other clients of the server, and many enough to share a round trip. */
const CALLS_PER_SCRIPT = 32
const GUESSES = 3
const NO_LIMIT = -1

interface Call {
  readonly tenantId: string
  readonly takes: readonly Take[]
  readonly resolve: (taken: Taken) => void
  readonly reject: (error: unknown) => void
}

export class RedisCounters implements Counters {
  readonly #connection: RedisConnection
  readonly #keys: RedisKeys
  readonly #clockOffsetMs: () => number
  #calls: Call[] = []
  /** Time of the server minus time of this process, in ms. */
  #aheadMs = 0

  constructor(connection: RedisConnection, keys: RedisKeys, clockOffsetMs: () => number) {
    this.#connection = connection
    this.#keys = keys
    this.#clockOffsetMs = clockOffsetMs
  }

  async take(tenantId: string, takes: readonly Take[]): Promise<Taken> {
    checkCounterOwner(tenantId)
    checkTakes(takes)
    return new Promise<Taken>((resolve, reject) => {
      this.#calls.push({ tenantId, takes, resolve, reject })
      // Deferred, so that calls of the same tick are batched.
      if (this.#calls.length === 1) setImmediate(() => this.#send())
    })
  }

  async read(tenantId: string, name: string): Promise<Reading> {
    checkCounterOwner(tenantId)
    checkCounterName(name)
    const base = this.#keys.counting(tenantId)
    const [nowMs, today, gauge] = await this.#onDay((date) => ({
      script: READ,
      keys: [`${base}${date}:${name}`, `${base}snap:${name}`],
    }))
    return { today: numberOf(today), gauge: numberOf(gauge), nowMs }
  }

  async readAll(tenantId: string): Promise<Readings> {
    checkCounterOwner(tenantId)
    const base = this.#keys.counting(tenantId)
    const [nowMs, ...found] = await this.#onDay((date) => ({
      script: READ_ALL,
      keys: [`${base}names`],
      values: [`${base}${date}:`, `${base}snap:`],
    }))
    const today = new Map<string, number>()
    const gauges = new Map<string, number>()
    for (let index = 0; index < found.length; index += 3) {
      const [name, count, value] = found.slice(index, index + 3)
      if (count) today.set(name as string, Number(count))
      if (value) gauges.set(name as string, Number(value))
    }
    return { today, gauges, nowMs }
  }

  async put(tenantId: string, name: string, value: number): Promise<number> {
    checkCounterOwner(tenantId)
    checkGauge(name, value)
    const base = this.#keys.counting(tenantId)
    const keys = [`${base}snap:${name}`, `${base}names`]
    return this.#connection.script(PUT, keys, [this.#today(), this.#clockOffsetMs(), value, name])
  }

  async counted(tenantId: string, names: readonly string[]): Promise<Counted> {
    checkCounted(tenantId, names)
    const base = this.#keys.counting(tenantId)
    const [nowMs, ...found] = await this.#onDay((date, dateBefore) => ({
      script: COUNTED,
      keys: [
        ...[date, dateBefore].map((one) => `${base}cleared:${one}`),
        ...names.flatMap((name) => [date, dateBefore].map((one) => `${base}${one}:${name}`)),
      ],
      values: names,
    }))
    const sums = (at: number) =>
      countsByName(names, (_, place) => {
        const [count, cleared] = found.slice(place * 4 + at)
        return withCleared(countOf(count), countOf(cleared))
      })
    return { today: sums(0), yesterday: sums(2), nowMs }
  }

  async clear(tenantId: string, name?: string): Promise<void> {
    checkCounterOwner(tenantId)
    if (name !== undefined) checkCounterName(name)
    const base = this.#keys.counting(tenantId)
    await this.#onDay((date) => ({
      script: CLEAR,
      keys: [`${base}names`, `${base}cleared:${date}`],
      values: [`${base}${date}:`, `${base}snap:`, name ?? '', COUNTER_TTL_SECONDS],
    }))
  }

  #today(): number {
    return dayOf(Date.now() + this.#aheadMs)
  }

  /** Runs a script that returns the server's time, and nothing else if it received another day than the server's. */
  async #onDay<Rest>(
    request: (
      date: string,
      dateBefore: string,
    ) => {
      script: Script<Timed<Rest>>
      keys: readonly string[]
      values?: readonly (string | number)[]
    },
  ): Promise<Timed<Rest>> {
    for (let guess = 0; guess < GUESSES; guess++) {
      const day = this.#today()
      const { script, keys, values = [] } = request(dateOf(day), dateOf(day - 1))
      const reply = await this.#connection.script(script, keys, [day, this.#clockOffsetMs(), ...values])
      if (this.#isOf(day, reply)) return reply
    }
    throw dayless()
  }

  #isOf(day: number, [nowMs]: Timed<unknown>): boolean {
    this.#aheadMs = nowMs - Date.now()
    return dayOf(nowMs) === day
  }

  #send(): void {
    const calls = this.#calls
    this.#calls = []
    const parts = this.#connection.isCluster
      ? [...Map.groupBy(calls, ({ tenantId }) => tenantId).values()].flatMap(portions)
      : portions(calls)
    for (const part of parts) {
      this.#take(part).catch((error) => {
        for (const { reject } of part) reject(error)
      })
    }
  }

  async #take(calls: readonly Call[]): Promise<void> {
    for (let guess = 0; guess < GUESSES; guess++) {
      const day = this.#today()
      const reply = await this.#connection.scriptNow(TAKE, this.#argumentsOf(calls, day))
      if (this.#isOf(day, reply)) {
        settle(calls, reply)
        return
      }
    }
    throw dayless()
  }

  #argumentsOf(calls: readonly Call[], day: number): readonly (string | number)[] {
    const date = dateOf(day)
    const keys: (string | number)[] = [0]
    const values: (string | number)[] = [day, this.#clockOffsetMs(), COUNTER_TTL_SECONDS]
    for (const { tenantId, takes } of calls) {
      const base = this.#keys.counting(tenantId)
      keys.push(`${base}names`)
      values.push(takes.length)
      for (const { name, amount, limit } of takes) {
        keys.push(`${base}${date}:${name}`)
        values.push(amount, limit ?? NO_LIMIT)
      }
    }
    keys[0] = keys.length - 1
    for (const value of values) keys.push(value)
    return keys
  }
}

function portions(calls: readonly Call[]): (readonly Call[])[] {
  if (calls.length <= CALLS_PER_SCRIPT) return [calls]
  const count = Math.ceil(calls.length / CALLS_PER_SCRIPT)
  return Array.from({ length: count }, (_, index) =>
    calls.slice(index * CALLS_PER_SCRIPT, (index + 1) * CALLS_PER_SCRIPT),
  )
}

/** @param reply of TAKE: the time, then for each counter of each call its count, -1 - count, or an error */
function settle(calls: readonly Call[], reply: Timed<number | string>): void {
  const [nowMs] = reply
  let place = 1
  for (const { takes, resolve, reject } of calls) {
    const counts = reply.slice(place, place + takes.length).map(Number)
    const failure = reply[place]
    place += takes.length
    if (Number.isNaN(counts[0])) {
      reject(rejectionOf(new Error(String(failure))))
      continue
    }
    if ((counts[0] as number) >= 0) {
      resolve({ isAllowed: true, usages: counts, nowMs })
      continue
    }
    const usages = counts.map((count) => -1 - count)
    const isOverALimit = takes.some(
      ({ amount, limit }, index) => amount > 0 && limit !== null && (usages[index] as number) + amount > limit,
    )
    if (isOverALimit) resolve({ isAllowed: false, usages, nowMs })
    else
      reject(
        tooFar(
          takes.find(({ amount }, index) => !Number.isSafeInteger((usages[index] as number) + amount))?.name ?? '',
        ),
      )
  }
}

const numberOf = (kept: string | null | undefined): number | null => (kept ? Number(kept) : null)

/** Throws for a value that is not a count, which must not be taken for 0. */
function countOf(kept: string | null | undefined): number {
  const count = Number(kept ?? 0)
  if (!Number.isSafeInteger(count)) throw rejectionOf(new Error('WRONGTYPE not a count'))
  return count
}

/** Thrown when the day changes at each of several attempts. */
const dayless = () => DependencyUnavailable('The clock of the store does not stay on one day')
