/** Common data of the cases of backups and transfers. */
import { REFUSED } from './row.ts'

export const absent = { tenant: 'none' } as const
export const deleted = { given: ['DELETE /tenants/{id}'] } as const
export const backedUp = { backup: 'completed' } as const
export const moving = { given: ['POST /tenants/{id}/move {"isolation":"database-pg"}'] } as const
export const backingUp = { given: ['POST /tenants/{id}/backup'] } as const
export const refused = { given: [REFUSED], waits: true } as const
export const cancelled = { waits: 'cancelled' } as const
/** A driver without copies. */
export const inMemory = { isolation: 'sqlite-memory' } as const
export const wrongQuery = { query: { colour: 'red' } }
export const UNKNOWN = '00000000-0000-7000-8000-000000000000'
