/** Places where modules show their views: cards, lines of a header. A view that fails shows its error, and the others stay. */
import { Component, lazy, type ReactNode, Suspense, useState } from 'react'
import { load } from '../data/load.ts'
import type { View } from '../module.ts'
import { ProblemView } from './base/problem.tsx'

interface SlotsProps<Props> {
  readonly entries: readonly { readonly view: View<Props> }[]
  readonly props: Props
}

/** @example <Slots entries={cards()} props={{ id }} /> */
export function Slots<Props extends object>({ entries, props }: SlotsProps<Props>) {
  const [views] = useState(() => entries.map(({ view }) => lazy(() => load(view))))
  return views.map((Shown, index) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the list of modules is constant
    <Boundary key={index}>
      <Suspense>
        <Shown {...(props as any)} />
      </Suspense>
    </Boundary>
  ))
}

class Boundary extends Component<{ readonly children: ReactNode }, { readonly error: unknown }> {
  override state = { error: undefined }

  static getDerivedStateFromError(error: unknown) {
    return { error }
  }

  override render() {
    return this.state.error === undefined ? this.props.children : <ProblemView error={this.state.error} isCompact />
  }
}
