class CreateNotes < ActiveRecord::Migration[7.1]
  def change
    create_table :users do |t|
      t.string :email, null: false, index: { unique: true }
      t.string :password_digest, null: false
      t.string :locale, null: false, default: "en"
      t.timestamps
    end

    create_table :notes do |t|
      t.references :user, null: false, foreign_key: true
      t.string :title, null: false
      t.text :body
      t.date :walked_on, null: false
      t.boolean :public, null: false, default: false
      t.timestamps
    end

    create_table :observations do |t|
      t.references :note, null: false, foreign_key: true
      t.string :species, null: false
      t.integer :count, null: false, default: 1
      t.string :photo_url
      t.timestamps
    end

    create_table :tags do |t|
      t.string :name, null: false, index: { unique: true }
    end

    create_join_table :notes, :tags do |t|
      t.index %i[note_id tag_id], unique: true
    end
  end
end
