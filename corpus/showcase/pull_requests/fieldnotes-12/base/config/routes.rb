Rails.application.routes.draw do
  root "notes#index"

  resource :session, only: %i[new create destroy]
  resources :notes
  get "feed", to: "feeds#show"
end
