/** The kernel's tables in the backoffice database. */
import { IDEMPOTENCY_KEYS } from './api/idempotency.ts'
import type { Migration } from './database/migrations.ts'
import { JOB_NAMES } from './jobs/queue-registry.ts'

export const tables: readonly Migration[] = [{ name: '0001_kernel', up: IDEMPOTENCY_KEYS + JOB_NAMES }]
