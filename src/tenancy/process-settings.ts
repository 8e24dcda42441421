/** Settings that the processes of a backoffice must share, as text without secrets. kernel/processes/settings.ts compares them. */
import { placementIdentities } from '../drivers/isolation/roles/placement-identity.ts'
import { type ProcessSettings, settingText } from '../kernel/processes/settings.ts'
import type { Satellite } from './satellite.ts'
import type { Settings } from './settings.ts'

export async function processSettings(
  { secrets, store, storage, backups, erasure, migrations, plans, placements }: Settings,
  satellites: readonly Satellite[],
): Promise<ProcessSettings> {
  const { defaultPlan, definitions, getPlan } = plans
  const { main: _, ...others } = placements // the database of the backoffice is the same
  return {
    appKey: secrets.keyIds.join(' '),
    store: store.identity ?? null,
    'backups.storage': backups.archives ? (backups.archives.identity ?? null) : 'none',
    'erasure.auditFields': erasure.auditFields,
    'isolation.default': storage.defaultName,
    ...named('isolation.drivers', storage.drivers, ({ name, options = {} }) => [name, settingText(options)]),
    ...named('placements', Object.entries(await placementIdentities(others)), (entry) => entry),
    ...named('migrations', migrations, ({ name, checksum }) => [name, checksum]),
    ...named('satellites', satellites, ({ name, tables = [] }) => [name, tables.at(-1)?.name ?? 'no tables']),
    ...named(
      'satellites',
      satellites.flatMap(({ name, sharedOptions = {} }) =>
        Object.entries(sharedOptions).map(([option, value]) => [`${name}.${option}`, value] as const),
      ),
      (entry) => entry,
    ),
    'plans.defaultPlan': defaultPlan,
    'plans.getPlan': getPlan ? 'function' : 'metadata.plan',
    ...named('plans.definitions', Object.entries(definitions), ([name, plan]) => [name, settingText(plan)]),
  }
}

const named = <T>(group: string, all: readonly T[], entryOf: (one: T) => readonly [string, string | null]) =>
  Object.fromEntries(
    all.map((one) => {
      const [name, value] = entryOf(one)
      return [`${group}.${name}`, value]
    }),
  )
