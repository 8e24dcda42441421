/** What the doctor examines of tenants: their installation, what they depend on, and, with `prove`, their isolation. */
import { type Diagnosis, type Examination, type Finding, notExamined } from '../../kernel/doctor/doctor.ts'
import type { Repair } from '../isolation/driver.ts'
import type { Tenants } from '../tenants.ts'
import { serversDiagnosis } from './servers.ts'
import { storageDiagnosis } from './storage.ts'
import { transferDiagnoses } from './transfers.ts'

/** A proof reads the catalog of every server. */
const PROOF_TIMEOUT_MS = 300_000

export const diagnoses: readonly Diagnosis<Tenants>[] = [
  {
    name: 'tenants',
    summary: 'Installations and purges that failed or do not come to an end',
    examine: examineTenants,
  },
  { name: 'directory', summary: 'Tenants of a driver or placement that is not configured', examine: examineDirectory },
  { name: 'plans', summary: 'Tenants with a plan that is not defined', examine: examinePlans },
  { name: 'circuits', summary: 'Databases that are not called at present', examine: examineCircuits },
  { name: 'migrations', summary: 'Storage that lacks migrations, or has others', examine: examineMigrations },
  storageDiagnosis,
  serversDiagnosis(),
  ...transferDiagnoses,
  {
    name: 'isolation',
    summary: "What servers' catalogs say about the isolation of tenants; only with prove",
    timeoutMs: PROOF_TIMEOUT_MS,
    examine: examineIsolation,
    fix: (_, { subject }) => (subject as Repair)(),
  },
]

const tenants = (count: number): string => (count === 1 ? '1 tenant' : `${count} tenants`)

async function* examineTenants({ reconciliation }: Tenants): AsyncIterable<Finding> {
  for (const { id, failure } of await reconciliation.failed()) {
    yield {
      severity: 'warn',
      code: 'tenants.failed',
      message: `"${id}" was not installed: ${failure?.message ?? 'it is not known why'}`,
      remedy: `Put the cause right, then: tenantry tenant:activate ${id}`,
      tenantId: id,
    }
  }
  for (const { id, what, since } of await reconciliation.stuck()) {
    yield {
      severity: 'warn',
      code: what === 'purge' ? 'tenants.purge-stuck' : 'tenants.provisioning-stuck',
      message: `the ${what === 'purge' ? 'purge' : 'installation'} of "${id}" has not ended since ${since.toISOString()}`,
      remedy: `See whether a worker runs, and what its log says: tenantry tenant:queue:stats ${id}`,
      tenantId: id,
    }
  }
}

async function* examineDirectory({ reconciliation }: Tenants): AsyncIterable<Finding> {
  const drivers = reconciliation.drivers.map(({ name }) => name)
  for (const { isolation, placement, tenants: count } of await reconciliation.unserved()) {
    const lacksDriver = !drivers.includes(isolation)
    yield {
      severity: 'error',
      code: lacksDriver ? 'directory.driver-missing' : 'directory.placement-missing',
      message: `${tenants(count)} cannot be served: ${
        lacksDriver ? `the isolation driver "${isolation}"` : `the placement "${placement}"`
      } is not configured`,
      remedy: lacksDriver
        ? 'Add the driver to `isolation`.'
        : `Add the server to \`placements\`; if it is gone for good, restore its tenants elsewhere, delete the others, and say so: tenantry placement:forget ${placement}`,
    }
  }
}

async function* examinePlans({ reconciliation, plans }: Tenants): AsyncIterable<Finding> {
  if (plans.isDecidedByHost) return
  for (const { plan, tenants: count } of await reconciliation.plans()) {
    if (typeof plan === 'string' && plans.isDefined(plan)) continue
    yield {
      severity: 'warn',
      code: 'plans.undefined',
      message: `${tenants(count)} with the plan ${JSON.stringify(plan)}, which is not defined, count as "${plans.describe().defaultPlan}"`,
      remedy: 'Define it in `plans.definitions`, or give those tenants another plan.',
    }
  }
}

function* examineCircuits({ circuits }: Tenants): Iterable<Finding> {
  const { servers, tenants } = circuits.snapshot()
  const wait = (state: string) => (state === 'OPEN' ? 'is not called for now' : 'is being tried again')
  for (const { placement, state } of servers) {
    if (state === 'CLOSED') continue
    yield {
      severity: state === 'OPEN' ? 'error' : 'warn',
      code: 'circuits.server-open',
      message: `the server of the placement "${placement}" does not answer, and ${wait(state)}`,
      remedy: 'See to the server; the circuit closes by itself once it answers.',
    }
  }
  const dead = new Set(servers.filter(({ state }) => state !== 'CLOSED').map(({ placement }) => placement))
  for (const { tenantId, placement, state } of tenants) {
    if (state === 'CLOSED' || dead.has(placement)) continue
    yield {
      severity: 'warn',
      code: 'circuits.tenant-open',
      message: `the database of "${tenantId}" does not answer, and ${wait(state)}`,
      remedy: 'See to the database; the circuit closes by itself once it answers.',
      tenantId,
    }
  }
}

async function* examineMigrations({ migrations }: Tenants): AsyncIterable<Finding> {
  const { versions, lastRun } = await migrations.status.summary()
  const isRunning = lastRun?.state === 'running'
  if (lastRun?.state === 'failed') {
    yield {
      severity: 'warn',
      code: 'migrations.run-failed',
      message: `the last migration run failed for ${lastRun.failed} of its storages`,
      remedy: 'See tenantry tenant:migrate:status, put the cause right, and run tenantry tenant:migrate again.',
    }
  }
  for (const { pending, unknown, edited, tenants: count } of versions) {
    if (pending.length > 0) {
      yield {
        severity: isRunning ? 'info' : 'warn',
        code: 'migrations.behind',
        message: `${tenants(count)} lack ${pending.join(', ')}`,
        remedy: isRunning ? 'A migration run is at work on it.' : 'Run tenantry tenant:migrate.',
      }
    }
    if (edited.length > 0) {
      yield {
        severity: 'warn',
        code: 'migrations.edited',
        message: `${tenants(count)} have run ${edited.join(', ')} with another content than it has now`,
        remedy: 'Put it back as it was and add a new migration; until then no other is run for them.',
      }
    }
    if (unknown.length > 0) {
      yield {
        severity: 'info',
        code: 'migrations.unknown',
        message: `${tenants(count)} have run ${unknown.join(', ')}, which is not among the migrations here`,
        remedy: 'Expected while a newer release is being rolled out or taken back; else bring the file back.',
      }
    }
  }
}

/** Drivers share servers, and what is wrong with one is told once. */
async function* examineIsolation({ reconciliation }: Tenants, { prove, log }: Examination): AsyncIterable<Finding> {
  if (!prove) return
  const seen = new Set<string>()
  for (const driver of reconciliation.drivers) {
    try {
      for await (const finding of driver.audit(reconciliation.storageLocations(driver.name))) {
        const identity = `${finding.code} ${finding.message}`
        if (!seen.has(identity)) yield finding
        seen.add(identity)
      }
    } catch (error) {
      yield notExamined(`The isolation by ${driver.name}`, error, log)
    }
  }
}
