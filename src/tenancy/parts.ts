/** The parts of a tenancy, in the order of their creation and start. A service is created from those of earlier parts. */
import { loginsPart, storagePart } from '../drivers/isolation/parts.ts'
import type { AnyOperation } from '../kernel/api/operation.ts'
import type { Part } from '../kernel/part-definition.ts'
import { examinationsPart, kernelPart, storePart } from '../kernel/parts.ts'
import type { StoreDriver } from '../kernel/store/store.ts'
import { adoptionsPart } from '../tenants/adoption/part.ts'
import { BackofficeRestored } from '../tenants/backoffice-recovery.ts'
import { bulkPart } from '../tenants/bulk/part.ts'
import { circuitsPart } from '../tenants/circuits/part.ts'
import { commandRunsPart } from '../tenants/command-runs/part.ts'
import { commands } from '../tenants/commands/tenants.ts'
import { diagnoses } from '../tenants/doctor/tenants.ts'
import { erasuresPart } from '../tenants/erasure/part.ts'
import { handlesPart, scopePart } from '../tenants/handles/parts.ts'
import { hostJobsPart } from '../tenants/host-jobs/part.ts'
import { tableChangesPart } from '../tenants/isolation/part.ts'
import { lifecyclePart, provisioningPart } from '../tenants/lifecycle/parts.ts'
import { migrationsPart } from '../tenants/migrations/part.ts'
import { operations } from '../tenants/operations/tenants.ts'
import { outboxPart, relayPart } from '../tenants/outbox/part.ts'
import { overviewPart } from '../tenants/overview/part.ts'
import { plansPart, registryPart } from '../tenants/registry/parts.ts'
import { tableImportsPart } from '../tenants/sql-import/tables/part.ts'
import * as tenantEvents from '../tenants/tenant/events.ts'
import { tables } from '../tenants/tenant/tables.ts'
import type { TenantServices } from '../tenants/tenant-services.ts'
import { Tenants } from '../tenants/tenants.ts'
import { transfersPart } from '../tenants/transfers/part.ts'
import { activityPart } from './activity/part.ts'
import { tenantsFirst } from './composition.ts'
import { processesPart } from './processes.ts'
import type { Satellite } from './satellite.ts'
import { systemOperations } from './system-operations.ts'
import { sessionsPart, tokensPart } from './tokens/parts.ts'

interface Dependencies extends TenantServices {
  readonly configuration: { readonly retentionMs: number }
}

const tenantsPart: Part<'tenants', Tenants, Dependencies> = {
  name: 'tenants',
  tables,
  events: [
    ...Object.values(tenantEvents).toSorted((a, b) => a.name.localeCompare(b.name)), // a module's order is its bundler's
    BackofficeRestored,
  ],
  service: (kernel, { configuration, ...services }) => new Tenants(kernel, services, configuration.retentionMs),
  operations,
  commands,
  doctor: diagnoses,
  console: new URL('../tenants/console/index.tsx', import.meta.url),
}

/** Members of a tenancy that are not services of parts, and the name of the configuration. */
const RESERVED = [
  'configuration',
  'health',
  'doctor',
  'series',
  'operations',
  'commands',
  'receivers',
  'checks',
  'consoles',
  'satelliteOperations',
  'tenant',
  'run',
  'current',
  'withoutTenant',
  'perTenant',
  'pg',
  'dialect',
  'carry',
  'job',
  'forEachTenant',
  'guard',
  'transaction',
  'on',
  'stop',
]

/** Throws if two satellites have the same name, or one has the name of a built-in part. */
export function partsOf(store: StoreDriver, satellites: readonly Satellite[]): readonly Part[] {
  const before = [
    kernelPart,
    storePart(store),
    examinationsPart,
    processesPart,
    tokensPart,
    sessionsPart,
    activityPart,
    tableChangesPart,
    circuitsPart,
    storagePart,
    loginsPart,
    registryPart,
    plansPart,
    outboxPart,
    lifecyclePart,
    migrationsPart,
    commandRunsPart,
    transfersPart,
    adoptionsPart,
    provisioningPart,
    erasuresPart,
    handlesPart,
    tableImportsPart,
    overviewPart,
    tenantsPart,
    bulkPart,
  ]
  const names = satellites.map(({ name }) => name)
  const reserved = [...before, scopePart, hostJobsPart, relayPart].map(({ name }): string => name)
  const taken = names.find((name) => RESERVED.includes(name) || reserved.includes(name))
  if (taken) throw new Error(`Satellite "${taken}" has the name of a part of every tenancy.`)
  const repeated = names.find((name, index) => names.indexOf(name) !== index)
  if (repeated) throw new Error(`Satellite "${repeated}" is configured twice.`)
  return [...before, ...satellites.map(fromSatellite), scopePart, hostJobsPart, relayPart]
}

/** All operations of the API, in the order of its description. */
export const operationsOf = (parts: readonly Part[]): readonly AnyOperation[] => [
  ...parts.toSorted(tenantsFirst).flatMap(({ operations = [] }) => operations),
  ...systemOperations,
]

/** A satellite receives only the tenants. */
const fromSatellite = ({ start, ...satellite }: Satellite): Part<string, any, { readonly tenants: Tenants }> => ({
  ...satellite,
  service: (kernel, { tenants }) => satellite.service(kernel, tenants),
  start: (service, kernel, { tenants }) => start?.(service, kernel, tenants),
})
