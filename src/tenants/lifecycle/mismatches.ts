/** Compares the storage in the registry with the storage on a server. */
import type { StoredLocation } from '../isolation/driver.ts'
import type { Status } from '../tenant/lifecycle.ts'
import type { PlaceRow } from '../transfers/model/tables.ts'

export interface Registered {
  readonly id: string
  readonly locator: string
  readonly status: Status
  readonly statusBefore: Status | null
  readonly isBeingPurged: boolean
  /** Whether a transfer keeps the tenant closed. */
  readonly isHeld: boolean
}

/** Storage of a tenant in addition to its own. */
export interface BesideRegistered extends Pick<PlaceRow, 'tenantId' | 'locator' | 'state'> {}

/** `former open`: former storage without a fence. `abandoned`: storage of a failed transfer, not dropped yet. */
export type Mismatch = { readonly locator: string } & (
  | { readonly kind: 'missing' | 'open' | 'closed' | 'former open' | 'abandoned'; readonly tenantId: string }
  | { readonly kind: 'left over' }
)

/**
 * @param beside storage of tenants in addition to their own
 * @param isSeparate whether each tenant has separate storage; otherwise, `stored` has only fences
 */
export function compared(
  registered: readonly Registered[],
  beside: readonly BesideRegistered[],
  stored: readonly StoredLocation[],
  { isSeparate }: { isSeparate: boolean },
): Mismatch[] {
  const locations = byLocator(stored)
  return [...takeMismatches(registered, beside, locations, isSeparate), ...leftOver(locations, isSeparate)]
}

type StoredByLocator = Map<string, StoredLocation>

export const byLocator = (stored: readonly StoredLocation[]): StoredByLocator =>
  new Map(stored.map((location) => [location.locator, location]))

/** Removes the compared locations from those of the server. */
export function* takeMismatches(
  registered: readonly Registered[],
  beside: readonly BesideRegistered[],
  locations: StoredByLocator,
  isSeparate: boolean,
): Iterable<Mismatch> {
  for (const { id: tenantId, locator, status, statusBefore, isBeingPurged, isHeld } of registered) {
    const location = locations.get(locator)
    locations.delete(locator)
    if (isBeingPurged) continue
    const lived = status === 'deleted' ? statusBefore : status // a tenant that was never active may have no storage
    const isInstalled = lived === 'active' || lived === 'suspended'
    if (!isInstalled) continue
    const isFenced = location?.isFenced ?? false
    if (isSeparate && !location) yield { kind: 'missing', locator, tenantId }
    else if ((status !== 'active' || isHeld) && !isFenced) yield { kind: 'open', locator, tenantId }
    else if (status === 'active' && !isHeld && isFenced) yield { kind: 'closed', locator, tenantId }
  }
  for (const { tenantId, locator, state } of beside) {
    const location = locations.get(locator)
    locations.delete(locator)
    if (state === 'former' && !(isSeparate ? (location?.isFenced ?? true) : location?.isFenced)) {
      yield { kind: 'former open', locator, tenantId }
    }
    if (state === 'abandoned') yield { kind: 'abandoned', locator, tenantId }
  }
}

export function* leftOver(locations: StoredByLocator, isSeparate: boolean): Iterable<Mismatch> {
  if (isSeparate) for (const locator of locations.keys()) yield { kind: 'left over', locator }
}

export const identity = ({ kind, locator }: Mismatch): string => `${kind.replace(' ', '-')} ${locator}`
