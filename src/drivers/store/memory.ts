/**
 * The store inside one process: for tests, and for a service of one process that may lose its data at a restart.
 *
 * An expired entry is invisible immediately. Each write examines the next two entries in turn and removes expired ones,
 * so that the map stays small and no write is slow.
 */
import type { Clock } from '../../kernel/base/clock.ts'
import { InvalidRequest } from '../../kernel/base/errors.ts'
import type { Logger } from '../../kernel/base/logger.ts'
import { checkEntry, checkMessage, type Owner, type Store } from '../../kernel/store/store.ts'
import { MemoryCounters } from './memory-counters.ts'
import { MemorySums } from './memory-sums.ts'

const SWEPT_PER_WRITE = 2

/** A `StoreDriver` that needs only a clock. */
export interface MemoryStoreDriver {
  readonly identity: string
  open(base: { readonly clock: Clock; readonly log?: Logger }): Store
}

interface Entry {
  readonly owner: Owner
  readonly value: string
  readonly expiresAtMs: number
}

export const memoryStore = (): MemoryStoreDriver => ({
  identity: 'memory',
  open: ({ clock, log }) => storeBy(clock, log),
})

function storeBy(clock: Clock, log?: Logger): Store {
  const entries = new Map<string, Entry>()
  const listeners = new Set<{ readonly channel: string; readonly onMessage: (message: string) => void }>()
  const counters = new MemoryCounters(clock)
  const sums = new MemorySums(clock)
  let round = entries.entries()

  const isExpired = ({ expiresAtMs }: Entry) => expiresAtMs <= clock.now().getTime()
  const alive = (id: string) => {
    const entry = entries.get(id)
    return entry && !isExpired(entry) ? entry.value : null
  }
  const write = (owner: Owner, key: string, value: string, ttlSeconds = Number.POSITIVE_INFINITY) => {
    entries.set(idOf(owner, key), { owner, value, expiresAtMs: clock.now().getTime() + ttlSeconds * 1_000 })
    for (let looked = 0; looked < SWEPT_PER_WRITE; looked++) {
      const next = round.next()
      if (next.done) round = entries.entries()
      else if (isExpired(next.value[1])) entries.delete(next.value[0])
    }
  }

  return {
    name: 'memory',
    isCache: false,
    counters,
    sums,
    async get(owner, key) {
      checkEntry({ owner, key })
      return alive(idOf(owner, key))
    },
    async set(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      write(owner, key, value, ttlSeconds)
    },
    async setIfAbsent(owner, key, value, ttlSeconds) {
      checkEntry({ owner, key, value, ttlSeconds })
      if (alive(idOf(owner, key)) !== null) return false
      write(owner, key, value, ttlSeconds)
      return true
    },
    async take(owner, key) {
      checkEntry({ owner, key })
      const value = alive(idOf(owner, key))
      entries.delete(idOf(owner, key))
      return value
    },
    async delete(owner, key) {
      checkEntry({ owner, key })
      entries.delete(idOf(owner, key))
    },
    async increment(owner, key, amount, ttlSeconds) {
      checkEntry({ owner, key, amount, ttlSeconds })
      const before = alive(idOf(owner, key)) ?? '0'
      if (!/^-?\d+$/.test(before)) throw InvalidRequest('The value of this key is not a counter')
      const after = Number(before) + amount
      write(owner, key, String(after), ttlSeconds)
      return after
    },
    async list(key) {
      checkEntry({ owner: null, key })
      return [...entries]
        .filter(([id, entry]) => entry.owner !== null && id === idOf(entry.owner, key) && !isExpired(entry))
        .map(([, { owner, value }]) => ({ tenantId: owner ?? '', value }))
    },
    async publish(channel, message) {
      checkMessage({ channel, message })
      // Deferred, as with any other store: the publisher does not run the listeners.
      setImmediate(() => {
        for (const listener of listeners) {
          if (listener.channel !== channel) continue
          try {
            listener.onMessage(message)
          } catch (error) {
            log?.error({ err: error, channel }, 'a message of the store could not be handled')
          }
        }
      })
    },
    async subscribe(channel, onMessage) {
      checkMessage({ channel })
      const listener = { channel, onMessage }
      listeners.add(listener)
      return {
        close: async () => {
          listeners.delete(listener)
        },
      }
    },
    async purge(tenantId) {
      checkEntry({ owner: tenantId })
      counters.purge(tenantId)
      sums.purge(tenantId)
      for (const [id, { owner }] of entries) if (owner === tenantId) entries.delete(id)
    },
    async count(tenantId) {
      checkEntry({ owner: tenantId })
      const keys = [...entries.values()].filter((entry) => entry.owner === tenantId && !isExpired(entry))
      return keys.length + counters.count(tenantId) + sums.count(tenantId)
    },
    async ping() {},
    async close() {
      entries.clear()
      listeners.clear()
      counters.close()
      sums.close()
    },
  }
}

/** Unique, because neither the owner nor the key contains NUL, and no owner is empty. */
const idOf = (owner: Owner, key: string): string => `${owner ?? ''}\0${key}`
