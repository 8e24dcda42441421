/** Imports of dumps with tables, as a part of a tenancy. */
import type { Part } from '../../../kernel/part-definition.ts'
import type { Storage } from '../../isolation/drivers.ts'
import type { TenantMigration } from '../../isolation/migrations.ts'
import type { TableChanges } from '../../isolation/schema-generation.ts'
import { SchemaVersions } from '../../migrations/schema-versions.ts'
import type { Registry } from '../../registry/registry.ts'
import { TableImports } from './table-imports.ts'

interface Dependencies {
  readonly configuration: { readonly migrations: readonly TenantMigration[] }
  readonly registry: Registry
  readonly storage: Storage
  readonly tableChanges: TableChanges
}

export const tableImportsPart: Part<'tableImports', TableImports, Dependencies> = {
  name: 'tableImports',
  service: (kernel, { configuration, registry, storage, tableChanges }) =>
    new TableImports({
      kernel,
      registry,
      storage,
      versions: new SchemaVersions(kernel.database, configuration.migrations),
      changes: tableChanges,
    }),
}
