/** The panel of a screen, which the address names: `?open=`. */
import { useCommonSearch, useSetSearch } from './router.tsx'

/** @example const panel = useOpen(); panel.open('new'); panel.id === 'new' */
export function useOpen(): {
  readonly id: string | undefined
  readonly open: (id: string) => void
  readonly close: () => void
} {
  const { open } = useCommonSearch()
  const setSearch = useSetSearch()
  return {
    id: open,
    open: (id) => setSearch({ open: id }, { isReplaced: false }),
    close: () => setSearch({ open: undefined }),
  }
}
