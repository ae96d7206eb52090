/** The part of React's types that react.ts uses, so that the SDK builds without React. Apps have the types of `@types/react`. */
declare module "react" {
  export type ReactNode = unknown;
  export interface ReactElement { readonly type: unknown; readonly props: unknown; readonly key: string | null }
  export interface Context<Value> { readonly Provider: (props: { value: Value; children?: ReactNode }) => ReactElement | null }
  export function createContext<Value>(value: Value): Context<Value>;
  export function createElement(type: unknown, props?: object | null, ...children: ReactNode[]): ReactElement;
  export function useContext<Value>(context: Context<Value>): Value;
  export function useEffect(effect: () => void | (() => void), dependencies?: readonly unknown[]): void;
  export function useMemo<Value>(make: () => Value, dependencies: readonly unknown[]): Value;
  export function useState<Value>(initial: Value | (() => Value)): [Value, (value: Value) => void];
  export function useSyncExternalStore<Value>(
    subscribe: (changed: () => void) => () => void, get: () => Value, getOnServer?: () => Value,
  ): Value;
}
