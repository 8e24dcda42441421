/** Checksums of migrations, in the form of a release's `migrations.json`. */
import { checksum, type MigratedPart } from '../../src/kernel/database/migrations.ts'

/** By part and name, in order. */
export const checksumsOf = (parts: readonly MigratedPart[]): Record<string, Record<string, string>> =>
  Object.fromEntries(
    parts.map(({ part, migrations }) => [
      part,
      Object.fromEntries(migrations.map(({ name, up }) => [name, checksum(up)])),
    ]),
  )
