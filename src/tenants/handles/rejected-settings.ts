/**
 * Connection settings that name a server that does not exist.
 *
 * - A library that takes an object of a tenant for a configuration reads `host`, `user`, `port` and `database` from it, or copies its
 *   members. Without these settings it would find none, and connect by `PG*` as the owner. With them connecting fails with ENOTFOUND.
 * - They are own enumerable members, because node-postgres' `Pool` copies only these.
 */
export const REFUSED_SETTINGS = {
  host: 'use-the-handle.tenantry.invalid',
  port: 1,
  user: 'use-the-handle',
  database: 'use-the-handle',
} as const

/** Gives an object these settings, and returns it: for everything of a tenant that a library could be given. */
export const rejectSettings = <Target extends object>(target: Target): Target => Object.assign(target, REFUSED_SETTINGS)
