/**
 * Connection settings that name a server that does not exist.
 *
 * - A library that uses an object of a tenant as a configuration reads `host`, `user`, `port` and `database` from it,
 *   or copies its members. Without these settings it would connect by `PG*` as the owner; with them it fails with
 *   ENOTFOUND.
 * - They are own enumerable members, because node-postgres' `Pool` copies only these.
 */
export const REFUSED_SETTINGS = {
  host: 'use-the-handle.tenantry.invalid',
  port: 1,
  user: 'use-the-handle',
  database: 'use-the-handle',
} as const

/** Adds the settings to an object of a tenant and returns it. */
export const rejectSettings = <Target extends object>(target: Target): Target => Object.assign(target, REFUSED_SETTINGS)
