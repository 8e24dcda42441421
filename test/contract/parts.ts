/** Parts with contract cases: tenants, backups, bulk jobs, migrations, transfers, and each installed satellite. */
import { satellites } from '../../src/service/main.ts'
import { access } from './access.ts'
import { backups } from './backups.ts'
import { bulk } from './bulk.ts'
import { migrations } from './migrations.ts'
import { overview } from './overview.ts'
import type { Part } from './row.ts'
import { tenants } from './tenants.ts'
import { transfers } from './transfers.ts'

declare global {
  interface ImportMeta {
    /** Vite's glob: the modules whose paths match, read from the file system. */
    glob<Module>(pattern: string, options: { eager: true }): Record<string, Module>
  }
}

const fixtures = import.meta.glob<{ part: Part }>('../../src/satellites/*/coverage.fixture.ts', { eager: true })

/** By folder: `audit-logs` has the satellite `auditLogs`. */
const ofSatellites = new Map(
  Object.entries(fixtures).map(([path, { part }]) => [path.split('/').at(-2) ?? '', part] as const),
)

export const parts: readonly Part[] = [
  tenants,
  access,
  backups,
  bulk,
  migrations,
  transfers,
  overview,
  ...ofSatellites.values(),
]

/** Names of the events that the cases of a part publish. */
export function eventsOf(part: Part): readonly string[] {
  if (part.events) return part.events
  const [folder = ''] = [...ofSatellites].find(([, one]) => one === part) ?? []
  const name = folder.replaceAll(/-(\w)/g, (_, letter: string) => letter.toUpperCase())
  return satellites.find((one) => one.name === name)?.events?.map((event) => event.name) ?? []
}

/** All cases of one kind, by name. */
export const merged = <Kind extends keyof Part>(kind: Kind): NonNullable<Part[Kind]> =>
  Object.fromEntries(parts.flatMap((part) => Object.entries(part[kind] ?? {}))) as NonNullable<Part[Kind]>
