/** Types of the operations of a host, which its console module declares. */

/**
 * Operations of the host by name. A module adds its own, and hooks, links and forms then know them.
 *
 * @example
 *   declare module 'tenantry/console' {
 *     interface HostOperations {
 *       'notes.list': HostOperation<{ params: { id: string }; result: { data: Note[]; nextCursor: string | null } }>
 *     }
 *   }
 */
// biome-ignore lint/suspicious/noEmptyInterface: modules of hosts add members
export interface HostOperations {}

interface Parts {
  readonly params?: object
  readonly query?: object
  readonly body?: object
  readonly result?: unknown
}

type PartOf<All extends Parts, Name extends keyof Parts, Absent> = All extends Record<Name, infer Part> ? Part : Absent

/** A part without a required member may be absent. */
type Optional<Name extends string, Part> = {} extends Part
  ? { readonly [One in Name]?: Part }
  : { readonly [One in Name]: Part }
type Given<Name extends string, Part> = keyof Part extends never
  ? { readonly [One in Name]?: undefined }
  : Optional<Name, Part>

/** Params, query, body and result of an operation. An absent part is empty. */
export interface HostOperation<All extends Parts> {
  readonly params: PartOf<All, 'params', {}>
  readonly query: PartOf<All, 'query', {}>
  readonly body: PartOf<All, 'body', undefined>
  readonly result: PartOf<All, 'result', undefined>
  readonly input: Given<'params', PartOf<All, 'params', {}>> &
    Given<'query', PartOf<All, 'query', {}>> &
    Given<'body', PartOf<All, 'body', {}>>
}
