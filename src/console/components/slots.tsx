/** Places where modules show their views: cards, lines of a header. A view that fails shows its error, and the others stay. */
import { Component, type ComponentType, lazy, type ReactNode, Suspense, useState } from 'react'
import { load } from '../data/load.ts'
import type { View } from '../module.ts'
import { ProblemView } from './base/problem.tsx'

interface SlotsProps<Props> {
  readonly entries: readonly { readonly view: View<Props> }[]
  readonly props: Props
}

/** @example <Slots entries={cards()} props={{ id }} /> */
export function Slots<Props extends object>({ entries, props }: SlotsProps<Props>) {
  const [views] = useState(() => entries.map(({ view }) => lazyView(view)))
  // biome-ignore lint/suspicious/noArrayIndexKey: the list of modules is constant
  return views.map((Shown, index) => <Shown key={index} {...props} />)
}

/** A component that loads the view when it is shown first. */
export function lazyView<Props extends object>(view: View<Props>): ComponentType<Props> {
  const Shown = lazy(() => load(view))
  return (props) => (
    <Boundary>
      <Suspense>
        <Shown {...(props as any)} />
      </Suspense>
    </Boundary>
  )
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
