/** The names that a host declares in its definition, as types of the arguments of services. */

/** Undeclared names are any string. */
export interface Names {
  readonly plan: string
  readonly quota: string
  readonly flag: string
  /** Schemas of payloads by event. Not an index signature, which would absorb declared names. */
  readonly event: object
  /** Dotted names of the events that satellites publish. */
  readonly published: string
  readonly metric: string
  /** Definitions of settings by name. */
  readonly setting: object
}
