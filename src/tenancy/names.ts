/** Infers the names that plans and satellites declare, and the services of satellites for these names. */
import type { PlansConfig } from '../tenants/registry/plans.ts'
import type { AnySatellite, Names, ServiceFor, ServiceType } from './satellite.ts'

type TypesOf<One> = One extends { readonly types?: infer Types } ? NonNullable<Types> : {}

/** Names of one kind that satellites declare; never, if none does. Distributes over the satellites. */
type DeclaredIn<One, Kind extends keyof Names> = One extends AnySatellite
  ? TypesOf<One> extends { readonly declared: { readonly [K in Kind]: infer Declared } }
    ? Declared
    : never
  : never

/** Names of events that satellites publish; string, if the type of one does not have them. */
type PublishedBy<One> = One extends AnySatellite
  ? One extends { readonly published?: readonly (infer Published extends string)[] }
    ? Published
    : string
  : never

/** Names in the limits of plans; never, if no plan has a limit. */
type LimitOf<P extends PlansConfig> = {
  [Plan in keyof P['definitions']]: keyof P['definitions'][Plan]['limits'] & string
}[keyof P['definitions']]

type OrAny<Declared, Any> = [Declared] extends [never] ? Any : Declared extends Any ? Declared : never

/** The declared names of a definition with plans `P` and satellites `S`; kinds without a declaration have any name. */
export interface NamesOf<P extends PlansConfig, S extends readonly AnySatellite[]> extends Names {
  readonly plan: keyof P['definitions'] & string
  readonly quota: OrAny<LimitOf<P> | DeclaredIn<S[number], 'quota'>, string>
  readonly flag: OrAny<DeclaredIn<S[number], 'flag'>, string>
  readonly event: OrAny<DeclaredIn<S[number], 'event'>, object>
  readonly published: PublishedBy<S[number]>
  readonly metric: OrAny<DeclaredIn<S[number], 'metric'>, string>
  readonly setting: OrAny<DeclaredIn<S[number], 'setting'>, object>
}

type ServiceOf<One extends AnySatellite, N extends Names> =
  TypesOf<One> extends { readonly service: infer Type extends ServiceType }
    ? ServiceFor<Type, N>
    : ReturnType<One['service']>

/** The services of a list of satellites, by name. None for satellites that the compiler does not know, as in `{ sso: false }`. */
export type ServicesOf<S extends readonly AnySatellite[], N extends Names = Names> =
  IsUnknown<S[number]> extends true ? {} : { readonly [One in S[number] as One['name']]: ServiceOf<One, N> }

/** Of `AnySatellite`; not of `Satellite`, whose service is `any`. */
type IsUnknown<One extends AnySatellite> = string extends One['name']
  ? 0 extends 1 & ReturnType<One['service']>
    ? false
    : true
  : false
