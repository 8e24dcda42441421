/**
 * Looks up the addresses of a name in DNS; concurrent look-ups of a name share the result. `getaddrinfo` blocks one of few threads, so
 * it is used only where names of private networks are allowed (`/etc/hosts`, search lists).
 */
import { type LookupAddress, lookup, Resolver } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { FailureError, NAME_LOOK_UP_FAILED, NAME_NOT_FOUND } from './failure.ts'

export type Found = (error: FailureError | null, addresses: readonly LookupAddress[]) => void

/** Starts a look-up and returns a function that stops it. */
type Way = (name: string, found: Found) => () => void

/** How long the addresses of one family wait for those of the other (RFC 8305, section 3). */
const OTHER_FAMILY_MS = 50
const TIMEOUT_MS = 2_000
const TRIES = 2

const NO_SUCH_NAME: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA'])

export class Names {
  readonly #way: Way
  readonly #running = new Map<string, { readonly waiting: Found[]; stop: () => void }>()

  constructor(way: Way) {
    this.#way = way
  }

  lookUp(name: string, found: Found): void {
    const running = this.#running.get(name)
    if (running) return void running.waiting.push(found)
    const started = { waiting: [found], stop: () => {} }
    this.#running.set(name, started)
    started.stop = this.#way(name, (error, addresses) => {
      this.#running.delete(name)
      for (const each of started.waiting) each(error, addresses)
    })
  }

  /** Running look-ups have no result. */
  close(): void {
    for (const { stop } of this.#running.values()) stop()
    this.#running.clear()
  }
}

/** The system's look-up or a replacement. It cannot be stopped. */
export function bySystem(lookUp: LookupFunction = lookup as LookupFunction): Way {
  return (name, found) => {
    lookUp(name, { all: true }, (error, addresses, family = 4) => {
      if (error || addresses.length === 0) found(failed(error ? [error] : []), [])
      else found(null, typeof addresses === 'string' ? [{ address: addresses, family }] : addresses)
    })
    return () => {}
  }
}

/** @param servers instead of the system's; `127.0.0.1:5300` */
export function byDns(servers?: readonly string[]): Way {
  return (name, found) => {
    const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: TRIES }) // new, as the system's name servers may have changed
    if (servers) resolver.setServers(servers)
    const addresses: LookupAddress[] = []
    const errors: NodeJS.ErrnoException[] = []
    let missing = 2
    let timer: NodeJS.Timeout | undefined
    let isFinished = false

    const stop = () => {
      isFinished = true
      clearTimeout(timer)
      resolver.cancel()
    }
    const end = () => {
      stop()
      if (addresses.length === 0) found(failed(errors), [])
      else
        found(
          null,
          addresses.toSorted((a, b) => a.family - b.family),
        )
    }
    const resolved = (family: number) => (error: NodeJS.ErrnoException | null, of: readonly string[]) => {
      if (isFinished) return
      missing -= 1
      if (error) errors.push(error)
      else addresses.push(...of.map((address) => ({ address, family })))
      if (missing === 0) end()
      else if (addresses.length > 0) timer = setTimeout(end, OTHER_FAMILY_MS)
    }
    resolver.resolve4(name, resolved(4))
    resolver.resolve6(name, resolved(6))
    return stop
  }
}

/** A missing name is missing for both families; after another error a family without a response may have addresses. */
function failed(errors: readonly NodeJS.ErrnoException[]): FailureError {
  const isMissing =
    errors.some(({ code }) => code === 'ENOTFOUND') || errors.every(({ code }) => NO_SUCH_NAME.has(code))
  return new FailureError(isMissing ? NAME_NOT_FOUND : NAME_LOOK_UP_FAILED)
}
