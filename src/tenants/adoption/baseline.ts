/** Determines the migrations whose result existing storage has. */
import { invalid } from '../../kernel/base/errors.ts'
import type { SchemaVersions } from '../migrations/schema-versions.ts'

/** The names up to `baseline`, in order. A 400 without it, unless there are no migrations. */
export function migrationsUpTo({ folder }: Pick<SchemaVersions, 'folder'>, baseline: string | undefined): string[] {
  const names = folder.map(({ name }) => name)
  if (names.length === 0 && baseline === undefined) return []
  const last = names.indexOf(baseline ?? '')
  if (last >= 0) return names.slice(0, last + 1)
  const message = baseline === undefined ? 'is required: the host has migrations' : 'is not a migration of the host'
  throw invalid([{ path: 'baseline', message }])
}
