/**
 * Possible states of the tenants of a walk, by the lifecycle table and the responses. Jobs run concurrently, so a
 * tenant that is being installed has several possible states; each response narrows them, and a response that no state
 * explains is a failure.
 */
import { type Action, decide, type Move, type Status } from '../../src/tenants/tenant/lifecycle.ts'
import type { HttpResponse } from '../contract/calls.ts'
import { FAILING } from '../contract/row.ts'

interface State {
  readonly status: Status
  /** Status after a restore, for a deleted tenant. */
  readonly before: Status | null
}

const ACTIONS: Readonly<Record<string, Action>> = {
  'tenants.activate': 'activate',
  'tenants.suspend': 'suspend',
  'tenants.delete': 'delete',
  'tenants.restore': 'restore',
}
const EDITS = ['tenants.update', 'tenants.setPlan', 'tenants.enterMaintenance', 'tenants.exitMaintenance']

export interface StepOutcome {
  readonly fault?: string
  /** Whether the tenant was changed; undefined if the table does not decide. */
  readonly changed?: boolean
}

export class Model {
  readonly #states = new Map<string, readonly State[]>()
  /** Created from another tenant, which may be gone before the copy. */
  readonly #clones = new Set<string>()

  /** Processes the response to an operation on the tenant `{id}`. */
  hear(operation: string, id: string | undefined, response: HttpResponse): StepOutcome {
    const action = ACTIONS[operation]
    if (id !== undefined && action) return this.#move(id, action, response)
    if (operation === 'tenants.create') return this.#create(response)
    if (operation === 'tenants.clone') return this.#clone(response)
    if (id !== undefined && EDITS.includes(operation)) return this.#edit(id, response)
    return {}
  }

  /** Processes a tenant in a response. */
  see({ id, status }: { id: string; status: Status }): string | undefined {
    const possible = this.#possible(id)
    return this.#narrow(id, possible, status, `${id} is shown as ${status}, expected ${wordsOf(possible)}`)
  }

  knows(id: string): boolean {
    return this.#states.has(id)
  }

  #move(id: string, action: Action, response: HttpResponse): StepOutcome {
    const possible = this.#possible(id)
    if (possible.length === 0) return expectAbsent(id, response)
    const outcomes = possible.map((state) => {
      const decided = decide(state.status, action)
      const next = typeof decided === 'object' ? moved(state, decided.move) : state
      return { state, decided, next }
    })
    const description = `${action} of ${id}, formerly ${wordsOf(possible)}, returned ${response.status} ${response.json?.status}`
    if (response.json?.code === 'E_TENANT_STATE') {
      const rejected = outcomes.filter(({ decided }) => decided === 'rejected').map(({ state }) => state)
      this.#states.set(id, rejected)
      return rejected.length > 0 ? { changed: false } : { fault: description }
    }
    if (response.status >= 300) return rejectedOtherwise(id, response)
    const shows = ({ status }: State) => status === response.json.status
    const explained = outcomes.filter(
      ({ decided, next }) => decided !== 'rejected' && this.#withJobs(id, [next]).some(shows),
    )
    const after = explained.map(({ next }) => next)
    const fault = this.#narrow(id, this.#withJobs(id, after), response.json.status, description)
    const changes = new Set(explained.map(({ decided }) => typeof decided === 'object'))
    return { fault, changed: changes.size === 1 ? changes.has(true) : undefined }
  }

  #create({ status, json }: HttpResponse): StepOutcome {
    if (status !== 201) return { changed: false }
    if (this.knows(json.id)) return { fault: `${json.id} was created twice` }
    const fresh = this.#withJobs(json.id, [{ status: 'provisioning', before: null }])
    return {
      fault: this.#narrow(json.id, fresh, json.status, `${json.id} was created as ${json.status}`),
      changed: true,
    }
  }

  /** 202, or 200 after a wait. */
  #clone(response: HttpResponse): StepOutcome {
    if (response.status >= 300) return { changed: false }
    this.#clones.add(response.json.id)
    return this.#create({ ...response, status: 201 })
  }

  #edit(id: string, response: HttpResponse): StepOutcome {
    const possible = this.#possible(id)
    if (possible.length === 0) return expectAbsent(id, response)
    if (response.status < 300 && response.json.status === 'deleted')
      return { fault: `${id} is deleted, and was changed` }
    if (response.json?.code !== 'E_TENANT_STATE') return rejectedOtherwise(id, response)
    const fault = this.#narrow(id, possible, 'deleted', `a change of ${id} was rejected, formerly ${wordsOf(possible)}`)
    return { fault, changed: false }
  }

  #possible(id: string): readonly State[] {
    return this.#withJobs(id, this.#states.get(id) ?? [])
  }

  /** Adds the possible effects of the job InstallTenant. */
  #withJobs(id: string, states: readonly State[]): readonly State[] {
    const ends = this.#clones.has(id)
      ? (['fail', 'install'] as const)
      : ([id.includes(FAILING) ? 'fail' : 'install'] as const)
    return states.flatMap((state) => {
      if (state.status !== 'provisioning') return [state]
      const ended = ends.map((end) => decide('provisioning', end))
      return [state, ...ended.flatMap((one) => (typeof one === 'object' ? [moved(state, one.move)] : []))]
    })
  }

  #narrow(id: string, states: readonly State[], status: Status, words: string): string | undefined {
    const left = states.filter((state) => state.status === status)
    this.#states.set(id, left)
    return left.length > 0 ? undefined : words
  }
}

function moved(state: State, move: Move): State {
  const status = move.to === 'before' ? (state.before ?? 'failed') : move.to
  return { status, before: status === 'deleted' ? state.status : null }
}

/** Every rejection except "not found" precedes the lookup of the tenant. */
function expectAbsent(id: string, { status, json }: HttpResponse): StepOutcome {
  const wasLookedFor = status < 300 || status === 409
  return wasLookedFor ? { fault: `${id} does not exist, and returned ${status} ${json?.code}` } : { changed: false }
}

function rejectedOtherwise(id: string, { status, json }: HttpResponse): StepOutcome {
  if (json?.code === 'E_TENANT_NOT_FOUND') return { fault: `${id} exists, and was not found` }
  return status < 300 ? {} : { changed: false }
}

const wordsOf = (states: readonly State[]): string =>
  [...new Set(states.map(({ status }) => status))].join(' or ') || 'absent'
