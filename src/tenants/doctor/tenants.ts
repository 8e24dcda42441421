/** Diagnoses of tenants: installation, dependencies and, with `prove`, isolation. */
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
    summary: 'Failed or stuck installations and purges',
    examine: examineTenants,
    fix: reinstall,
  },
  { name: 'directory', summary: 'Tenants on a driver or placement that is not configured', examine: examineDirectory },
  { name: 'search', summary: 'Missing index of searches', examine: examineSearch, fix: createSearchIndex },
  { name: 'plans', summary: 'Tenants with an undefined plan', examine: examinePlans },
  { name: 'circuits', summary: 'Databases with an open circuit', examine: examineCircuits },
  { name: 'migrations', summary: 'Storage with missing, edited or unknown migrations', examine: examineMigrations },
  storageDiagnosis,
  serversDiagnosis(),
  ...transferDiagnoses,
  {
    name: 'isolation',
    summary: "Isolation of tenants in the servers' catalogs; only with --prove",
    timeoutMs: PROOF_TIMEOUT_MS,
    examine: examineIsolation,
    fix: (_, { subject }) => (subject as Repair)(),
  },
]

const tenants = (count: number): string => (count === 1 ? '1 tenant' : `${count} tenants`)

async function* examineTenants({ reconciliation }: Tenants): AsyncIterable<Finding> {
  for await (const { id, failure } of reconciliation.failed()) {
    yield {
      severity: 'warn',
      code: 'tenants.failed',
      message: `tenant "${id}" was not installed: ${failure?.message ?? 'the cause is unknown'}`,
      remedy: `Fix the cause, then run: tenantry tenant:activate ${id}. For all of them: tenantry doctor --fix`,
      fixable: true,
      tenantId: id,
    }
  }
  for await (const { id, what, since } of reconciliation.stuck()) {
    yield {
      severity: 'warn',
      code: what === 'purge' ? 'tenants.purge-stuck' : 'tenants.provisioning-stuck',
      message: `the ${what === 'purge' ? 'purge' : 'installation'} of tenant "${id}" has not ended since ${since.toISOString()}`,
      remedy: `Check whether a worker runs, and check its log: tenantry tenant:queue:stats ${id}`,
      tenantId: id,
    }
  }
}

async function reinstall(tenants: Tenants, { tenantId = '' }: Finding): Promise<string> {
  const { tenant, changed } = await tenants.reinstall(tenantId)
  return changed
    ? 'the installation was started again; a worker carries it out'
    : `left unchanged: it is ${tenant.status}`
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
        : `Add the server to \`placements\`. If it is permanently lost, restore its tenants on another server, delete the others, and run: tenantry placement:forget ${placement}`,
    }
  }
}

async function* examineSearch({ registry }: Tenants): AsyncIterable<Finding> {
  const index = await registry.searchIndex()
  if (index === 'present') return
  const fixable = index === 'missing'
  yield {
    severity: 'info',
    code: 'search.unindexed',
    message: 'a search for tenants reads all of them: its index does not exist',
    remedy: fixable
      ? 'Create it with tenantry doctor --fix.'
      : 'Let a superuser run in the backoffice database: create extension pg_trgm. Then run: tenantry doctor --fix',
    fixable,
  }
}

async function createSearchIndex({ registry }: Tenants): Promise<string> {
  if ((await registry.searchIndex()) === 'present') return 'left unchanged: the index exists'
  await registry.createSearchIndex()
  return 'created'
}

async function* examinePlans({ reconciliation, plans }: Tenants): AsyncIterable<Finding> {
  if (plans.isDecidedByHost) return
  for (const { plan, tenants: count } of await reconciliation.plans()) {
    if (typeof plan === 'string' && plans.isDefined(plan)) continue
    yield {
      severity: 'warn',
      code: 'plans.undefined',
      message: `${tenants(count)} with the undefined plan ${JSON.stringify(plan)} count as "${plans.describe().defaultPlan}"`,
      remedy: 'Define it in `plans.definitions`, or change the plan of those tenants.',
    }
  }
}

function* examineCircuits({ circuits }: Tenants): Iterable<Finding> {
  const { servers, tenants } = circuits.snapshot()
  const wait = (state: string) => (state === 'OPEN' ? 'is not called for now' : 'is being probed')
  for (const { placement, state } of servers) {
    if (state === 'CLOSED') continue
    yield {
      severity: state === 'OPEN' ? 'error' : 'warn',
      code: 'circuits.server-open',
      message: `the server of the placement "${placement}" does not respond, and ${wait(state)}`,
      remedy: 'Check the server. The circuit closes automatically after a successful probe.',
    }
  }
  const dead = new Set(servers.filter(({ state }) => state !== 'CLOSED').map(({ placement }) => placement))
  for (const { tenantId, placement, state } of tenants) {
    if (state === 'CLOSED' || dead.has(placement)) continue
    yield {
      severity: 'warn',
      code: 'circuits.tenant-open',
      message: `the database of tenant "${tenantId}" does not respond, and ${wait(state)}`,
      remedy: 'Check the database. The circuit closes automatically after a successful probe.',
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
      remedy: 'See tenantry tenant:migrate:status, fix the cause, and run tenantry tenant:migrate again.',
    }
  }
  for (const { pending, unknown, edited, tenants: count } of versions) {
    if (pending.length > 0) {
      yield {
        severity: isRunning ? 'info' : 'warn',
        code: 'migrations.behind',
        message: `${tenants(count)} lack ${pending.join(', ')}`,
        remedy: isRunning ? 'A migration run is active.' : 'Run tenantry tenant:migrate.',
      }
    }
    if (edited.length > 0) {
      yield {
        severity: 'warn',
        code: 'migrations.edited',
        message: `${tenants(count)} have run ${edited.join(', ')} with content that has changed since`,
        remedy: 'Restore the file and add a new migration. Before that, no other migration runs for these tenants.',
      }
    }
    if (unknown.length > 0) {
      yield {
        severity: 'info',
        code: 'migrations.unknown',
        message: `${tenants(count)} have run ${unknown.join(', ')}, which is not among the migrations of this process`,
        remedy: 'Expected during a rollout or rollback of a release. Otherwise, restore the file.',
      }
    }
  }
}

/** Drivers share servers; a finding of several drivers is reported once. */
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
