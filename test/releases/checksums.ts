/** Checksums of migrations, as `migrations.json` of a release holds them. */
import { createHash } from 'node:crypto'
import type { MigratedPart } from '../../src/kernel/database/migrations.ts'

/** By part and name, in their order. */
export const checksumsOf = (parts: readonly MigratedPart[]): Record<string, Record<string, string>> =>
  Object.fromEntries(
    parts.map(({ part, migrations }) => [
      part,
      Object.fromEntries(migrations.map(({ name, up }) => [name, createHash('sha256').update(up).digest('hex')])),
    ]),
  )
